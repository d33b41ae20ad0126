-- Pops one element for a caller that does not wait, from the shard at an end of a spread list. KEYS and ARGV are those of
-- commands/spread_pop.lua.
--
-- requires: fast/spread_begin

if END and ARGV[6] == '1' and ARGV[7] == 'no' and not WAS_LARGE then
  local left, size = ARGV[4] == 'L', redis.call('LLEN', END)
  if size > 0 then
    local values = redis.call(left and 'LPOP' or 'RPOP', END, 1)
    local word = FAR_BORDER and string.format('AT %.0f', FAR_BORDER + (left and 1 - size or size - 1)) or 'OK'
    save_record(word .. '=' .. values[1])
    return { 0, word, values }
  end
end
