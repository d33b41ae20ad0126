-- Pops one element for a caller that does not wait, from the shard at an end of a spread list. KEYS and ARGV are those of
-- commands/spread_pop.lua.
--
-- requires: fast/spread_begin

if END and FAST_SIZE > 0 and ARGV[6] == '1' and ARGV[7] == 'no' and not WAS_LARGE then
  local values = redis.call(ARGV[4] == 'L' and 'LPOP' or 'RPOP', END, 1)
  local word = 'OK'
  if FAR_BORDER then
    word = 'AT ' .. string.format('%.0f', FAR_BORDER + (ARGV[4] == 'L' and 1 - FAST_SIZE or FAST_SIZE - 1))
  end
  save_record(word .. '=' .. values[1])
  return { 0, word, values }
end
