-- Pops elements from the shard at an end of a spread list that has them, also for a caller that was woken. KEYS and ARGV are
-- those of commands/spread_pop.lua.
--
-- requires: fast/spread_pop fast/spread_arm shared/pieces shared/popped shared/ring

-- is_here tells whether a key is a list or absent, and not on another node.
local function is_here(key)
  return type(redis.pcall('EXISTS', META, key)) == 'number' and type(redis.pcall('LLEN', key)) == 'number'
end

-- may_wake tells whether a caller that was woken may pop, out of a shard of that size, and wake others or wait again.
local function may_wake(size)
  return (size > COUNT or not FAR_BORDER) and is_here(BELL) and (ARGV[8] == '' or redis.pcall('EXISTS', ARGV[8]) == 0)
end

-- In each call:

if END and COUNT > 0 and COUNT < UNPACK_MAX then
  local size = redis.call('LLEN', END)
  local took = math.min(COUNT, size)
  if took > 1 or WAS_LARGE then
    POPPED_IS_HERE = is_here(POPPED)
  end
  local may_save = POPPED_IS_HERE or took == 1 and not WAS_LARGE
  if may_save and took > 0 and (WOKEN and may_wake(size) or not WOKEN and took == COUNT) then
    local values = redis.call(LEFT and 'LPOP' or 'RPOP', END, took)
    size = size - took
    if WOKEN and size == 0 then
      redis.call('DEL', BELL)
      arm(true)
    elseif WOKEN then
      ring()
    end
    local word = took == COUNT and 'OK' or 'EMPTY'
    if FAR_BORDER then
      word = string.format('AT %.0f', FAR_BORDER + (LEFT and -size or size))
    end
    save_popped(word, { values }, took)
    return { 0, word, values }
  end
end
