-- Lets no more jobs be taken.
--
-- requires: shared/jobs
--
-- KEYS  1 meta
-- ARGV  none
-- Reply OK
-- Flags allow-oom
-- Cost  O(1).
--
-- Safe because it may run twice, and because its first write changes nothing, so OOM allows it.

local problem = queue_away()
if problem then
  return problem
end
redis.call('HDEL', QUEUE, 'never')
redis.call('HSET', QUEUE, 'paused', '1')
return 'OK'
