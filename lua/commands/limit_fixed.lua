-- Admits up to a number of calls in each window of time.
--
-- requires: fast/limit_fixed shared/session
--
-- KEYS  1 the state: a hash with the fields window, the time in microseconds at which the current window began, and used
-- ARGV  1 to 3 see shared/operation.lua, 4 the limit, 5 the length of a window in microseconds, 6 how many to admit
-- Reply see verdict in shared/limit.lua
-- Cost  O(1): seven calls.
--
-- Safe because it reads the record and the state before the first write. That is HSET if it admits, which OOM refuses with
-- nothing changed; a refusal writes its record only, and OOM allows it.

local done, failure = replay()
if done or failure then
  return done or failure
end
local result = count_window()
save_result(result)
return result
