-- Moves a job to the list of the dead.
--
-- requires: shared/session shared/lists shared/length shared/sweep shared/put shared/jobs
--
-- KEYS  1 meta of the queue, 2 meta of the dead
-- ARGV  1 to 4 see shared/lists.lua, 5 the capacity if this creates the list of the dead, 6 the member of the job, see
--       shared/jobs.lua, 7 its unique key or '', 8 what the list of the dead gets
-- Reply 1, or 0 if the job was not leased under that member any more
-- Cost  O(log(jobs leased and delayed)).
--
-- Safe because it reads every key before the first write, and OOM allows that one: the job takes no more memory than before.

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
local waits = redis.call('HGET', QUEUE, 'waits') == 'limit' and not is_away(QUEUE_BELL)
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
local room, plan = plan_put(list, false, tail, 1, tonumber(ARGV[5]))
if not room then
  return plan
end

redis.call('ZREM', TIMES, member)
redis.call('HDEL', JOBS, string.sub(member, 1, 16))
redis.call('HINCRBY', QUEUE, 'dead', 1)
put_planned(list, false, room, plan, { ARGV[8] }, 1)
sweep(list)
use(1)
release_unique(ARGV[7], string.sub(member, 1, 16))
if waits then
  ring_waiters()
end
save_result(1)
return 1
