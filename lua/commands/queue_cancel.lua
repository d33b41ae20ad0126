-- Removes a job that is delayed.
--
-- requires: shared/session shared/unique
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 the id of the job
-- Reply 1, 0 if there is no such job, or -1 if it is leased
-- Flags allow-oom
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
local id = ARGV[4]
local _, _, unique = read_envelope(redis.call('HGET', JOBS, id) or '')
problem = unique and unique_away(unique)
if problem then
  return problem
end
local removed = unique and (redis.call('ZSCORE', TIMES, id .. NO_LEASE) and 1 or -1) or 0

if removed == 1 then
  redis.call('ZREM', TIMES, id .. NO_LEASE)
  redis.call('HDEL', JOBS, id)
  release_unique(unique, id)
else
  touch()
end
save_result(removed)
return removed
