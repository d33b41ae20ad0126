-- Counts what a fixed window admits. KEYS and ARGV are those of commands/limit_fixed.lua.
--
-- The function is here, and is called at once if the operation is a new one, because to define what a replay requires takes
-- longer than to count.
--
-- requires: shared/is_new shared/limit shared/record

-- count_window admits or refuses, and writes the state of a window that has admitted something.
local function count_window()
  local limit, per, n = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
  local now = microseconds()
  local state = redis.call('HMGET', META, 'window', 'used', 'records')
  local window, used = tonumber(state[1]), tonumber(state[2])
  local current = now - now % per
  if not window or window < current then -- a later one was begun before the clock was set back
    window, used = current, 0
  end
  if used + n > limit then
    refuse_nothing()
    return verdict(false, limit - used, window + per - now, now)
  end
  redis.call('HSET', META, 'window', whole(window), 'used', whole(used + n))
  keep_until(window + per, now, state[3])
  return verdict(true, limit - used - n, 0, now)
end

-- In each call:

if IS_NEW then
  local result = count_window()
  save_record(result)
  return result
end
