-- Moves a job to the list of the dead.
--
-- requires: shared/session shared/lists shared/length shared/sweep shared/put shared/unique
--
-- KEYS  1 meta of the queue, 2 meta of the dead
-- ARGV  1 to 4 see shared/lists.lua, 5 the capacity if this creates the list of the dead, 6 the member of the job, see
--       shared/jobs.lua, 7 why it failed
-- Reply 1, or 0 if the job was not leased under that member any more
-- Flags allow-oom
-- Cost  O(log(jobs leased and delayed)).
--
-- Safe because it reads every key before the first write, and OOM allows that one: the job takes no more memory than before. It
-- is added to the dead before it is removed.

use(1)
local done, failure = replay()
if done or failure then
  return tonumber(done) or failure
end
local member = ARGV[6]
local problem = queue_away()
if problem then
  return problem
end
local score = redis.call('ZSCORE', TIMES, member)
if not score or tonumber(score) > 0 then
  touch()
  save_result(0)
  return 0
end
local waits = waiting()
local id, attempt, unique, payload = read_envelope(redis.call('HGET', JOBS, string.sub(member, 1, 16)) or '')
if not id then
  return redis.error_reply('BROKENQUEUE the envelope of a leased job is missing')
end
problem = unique_away(unique)
if problem then
  return problem
end
use(2)
local list
list, problem = open()
if problem then
  return problem
end
local head, tail = measure(list)
if not head then
  return tail
end
local room, plan = plan_put(list, false, tail, 1, tonumber(ARGV[5]), #payload)
if not room then
  return plan
end

redis.call('HDEL', QUEUE, 'never') -- changes nothing, and OOM allows it
put_planned(list, false, room, plan, { envelope_of(id, math.min(attempt + 1, 65535), unique, payload, ARGV[7]) }, 1)
sweep(list)
redis.call('ZREM', TIMES, member)
redis.call('HDEL', JOBS, id)
redis.call('HINCRBY', QUEUE, 'dead', 1)
use(1)
release_unique(unique, id)
if waits == 'limit' then
  ring_waiters()
end
save_result(1)
return 1
