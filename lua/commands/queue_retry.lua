-- Takes a job out of the list of the dead, and lets it be due now.
--
-- requires: shared/session shared/lists shared/length shared/sweep shared/remove shared/jobs
--
-- KEYS  1 meta of the queue, 2 meta of the dead
-- ARGV  1 to 4 see shared/lists.lua, 5 the element of the list of the dead, 6 the envelope of the job
-- Reply 1, or 0 if the list has no such element
-- Flags allow-oom
-- Cost  that of commands/lrem.lua.
--
-- Safe because it reads every key before the first write, and because that write cannot grow the data set: OOM allows it.

use(1)
local done, failure = replay()
if done or failure then
  return tonumber(done) or failure
end
local problem = queue_away()
if problem then
  return problem
end
local waits = waiting()
use(2)
local list
list, problem = open()
if problem then
  return problem
end
local head, tail, length = measure(list)
if not head then
  return tail
end
local plan
begin_search(list, '')
plan, problem = plan_remove(list, length, 1, ARGV[5])
if not plan then
  return problem
end

if plan.removed == 0 then
  touch()
else
  remove_planned(list, plan)
end
sweep(list)
use(1)
if plan.removed > 0 then
  local now = clock()
  delay_jobs({ ARGV[6] }, now, now, waits)
end
save_result(plan.removed)
return plan.removed
