-- Admits up to a number of calls in each window of time.
--
-- requires: shared/counted
--
-- KEYS  1 the state: a hash with the fields window, the time in microseconds at which the current window began, and used
-- ARGV  1 to 3 see shared/operation.lua, 4 the limit, 5 the length of a window in microseconds, 6 how many to admit
-- Reply see verdict in shared/limit.lua
-- Cost  O(1): three calls.
--
-- Safe because it reads the record and the state before the first write. That is HSET if it admits, which OOM refuses with
-- nothing changed; a refusal writes its record only, and OOM allows it.

local state, reply = read_state('window', 'used')
if not state then
  return reply
end
local limit, per, n = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now = microseconds()
local window, used = tonumber(state[3] or nil), tonumber(state[4] or nil)
local current = now - now % per
if not window or window < current then -- a later one was begun before the clock was set back
  window, used = current, 0
end
if used + n > limit then
  write_nothing()
  return save_state(verdict(false, limit - used, window + per - now, now), now, now)
end
local result = verdict(true, limit - used - n, 0, now)
return save_state(result, window + per, now, 'window', whole(window), 'used', whole(used + n))
