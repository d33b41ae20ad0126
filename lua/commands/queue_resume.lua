-- Lets jobs be taken again.
--
-- requires: shared/jobs
--
-- KEYS  1 meta
-- ARGV  none
-- Reply OK
-- Flags allow-oom
-- Cost  O(1).
--
-- Safe because it may run twice.

local problem = queue_away()
if problem then
  return problem
end
local waits = waiting()
redis.call('HDEL', QUEUE, 'paused')
if waits then
  ring_waiters()
end
return 'OK'
