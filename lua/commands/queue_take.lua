-- Takes jobs and leases them: first those whose lease has run out, then those that are due, then those that wait.
--
-- requires: fast/take shared/elements shared/sweep shared/take_in shared/take_plan shared/take_lease shared/take_look
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 'L' or 'R', 5 how many, 6 how the caller waits, see commands/pop.lua, 7 its
--       release key, 8 its name, 9 the lease in milliseconds, 10 the concurrency, or 0; 11 the microseconds a token takes to
--       arrive, or 0, and 12 the burst; 13 sixteen random bytes that no other take has: they become the ids of jobs that have
--       none, and the first six are behind the ids of the members, see shared/jobs.lua
-- Reply when to look again, in milliseconds from now, or -1 if not before the bell; 2 if the jobs had been taken before, 1 if
--       there were newcomers, or else 0; what is behind the ids of the members; then the envelopes of the jobs
-- Flags allow-oom
-- Cost  O(jobs taken * log(jobs leased and delayed)). It stops at jobs of four megabytes together, those of the list by the
--       sizes of some.
--
-- Safe because it reads every key before the first write, and because that write cannot grow the data set: OOM allows it. It
-- adds before it removes, as commands/queue_settle.lua does.
--
-- No wake-up is lost: while a job can be taken, or will be at a known time, and a process waits, a dummy is in the bell, or a
-- take is about to run, or a process is going to look by then: the guard. A woken take that leaves nobody to look rings
-- again.

local done, failure = replay()
if failure then
  return failure
end
if done then
  return begin_again(replay_elements(done))
end
local list, problem = open(ARGV[6] ~= 'first' and 'waiting' or nil, false, popped_at(ARGV[4] == 'L'))
problem = problem or queue_away()
if problem then
  return problem
end
local take = begin_take(list)
problem = plan_jobs(take) or plan_look(take)
if problem then
  return problem
end

lease_jobs(take, take_planned(list, take.left, take.parts, take.stop, take.arms))
save_bucket(take)
save_look(take)
sweep(list)
save_elements(string.format('%.0f', take.wait), { { LEASE .. table.concat(take.ids) } }, take.taken > 0 and 1 or 0)
return { take.wait, list.found and 1 or 0, LEASE, unpack(take.envelopes) }
