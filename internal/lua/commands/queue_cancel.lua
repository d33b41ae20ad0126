-- Removes a job that is delayed.
--
-- requires: shared/session shared/jobs
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 the member of the job, see shared/jobs.lua, 5 its unique key or ''
-- Reply 1, or 0 if the job is not delayed under that member
-- Cost  O(log(jobs leased and delayed)).
--
-- Safe because it reads every key before the first write, and because that write cannot grow the data set: OOM allows it.

local done, failure = replay()
if done or failure then
  return tonumber(done) or failure
end
local problem = queue_away()
if problem then
  return problem
end
local score = redis.call('ZSCORE', TIMES, ARGV[4])
if not score or tonumber(score) < 0 then
  touch()
  save_result(0)
  return 0
end
redis.call('ZREM', TIMES, ARGV[4])
redis.call('HDEL', JOBS, string.sub(ARGV[4], 1, 16))
release_unique(ARGV[5], string.sub(ARGV[4], 1, 16))
save_result(1)
return 1
