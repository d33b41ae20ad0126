-- Pops one element from the shard at an end of a spread list, also for a caller that was woken. KEYS and ARGV are those of
-- commands/spread_pop.lua.
--
-- requires: fast/spread_begin shared/ring

local COUNT, WOKEN = tonumber(ARGV[6]), ARGV[7] == 'woken'

-- may_wake tells whether a caller that was woken may pop, out of a shard of that size, and wake others or wait again.
local function may_wake(size)
  local may = (size == 1 and not FAR_BORDER or size > 1 and COUNT == 1) and type(redis.pcall('EXISTS', META, BELL)) == 'number'
  return may and type(redis.pcall('LLEN', BELL)) == 'number' and (ARGV[8] == '' or redis.pcall('EXISTS', ARGV[8]) == 0)
end

if END and (COUNT == 1 or WOKEN and COUNT > 1) and not WAS_LARGE then
  local left, size = ARGV[4] == 'L', redis.call('LLEN', END)
  if size > 0 and (not WOKEN or may_wake(size)) then
    local values = redis.call(left and 'LPOP' or 'RPOP', END, 1)
    if WOKEN and size == 1 then
      redis.call('DEL', BELL)
      arm(true)
    elseif WOKEN then
      ring()
    end
    local word = FAR_BORDER and string.format('AT %.0f', FAR_BORDER + (left and 1 - size or size - 1))
      or COUNT == 1 and 'OK' or 'EMPTY'
    save_record(word .. '=' .. values[1])
    return { 0, word, values }
  end
end
