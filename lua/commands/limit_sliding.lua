-- Admits up to a number of calls in any span of time of one length. It keeps a log of what it has admitted, and so is exact.
--
-- requires: fast/limit_sliding shared/session
--
-- KEYS  1 the log, see shared/log.lua
-- ARGV  1 to 3 see shared/operation.lua, 4 the limit, 5 the length of the span in microseconds, 6 how many to admit, 7 how
--       much later than now, in microseconds
-- Reply see verdict in shared/limit.lua; what gives it back is the number and the time of the entry
-- Cost  O(log limit), and up to 100 old entries that it drops.
--
-- Safe because it reads the record and the log before the first write. That is HSET if it admits, which OOM refuses with
-- nothing changed; a refusal writes its record only, and OOM allows it.

local done, failure = replay()
if done or failure then
  return done or failure
end
local result = admit()
save_result(result)
return result
