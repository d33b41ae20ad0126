-- Removes elements that equal a value, as LREM does.
--
-- requires: shared/session shared/short_key shared/length shared/sweep shared/shrink shared/remove shared/take_in
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 how many: from the left end if positive, from the right end if negative, all if 0,
--       5 the value, 6 see shared/searched.lua
-- Reply how many elements were removed; or MORE: nothing, and steps must come before
-- Flags allow-oom
-- Cost  O(elements searched), two calls a shard. Then the gaps are closed from the nearer end of the list: O(elements that
--       move), each of them once, and about four calls for each shard from there to the farthest gap.
--
-- Safe because it reads every shard that will change before the first write, and because that write cannot grow the data set:
-- OOM allows it. See also shared/remove.lua.

local done, failure = replay()
if done or failure then
  return tonumber(done) or failure or MORE
end
local short = short_key()
if short then
  local removed = redis.call('LREM', short, ARGV[4], ARGV[5])
  save_result(removed)
  return removed
end
local list, problem = open()
if problem then
  return problem
end
local head, tail, length = measure(list)
if not head then
  return tail
end
problem = begin_search(list, ARGV[6])
local plan
if not problem then
  plan, problem = plan_remove(list, length, tonumber(ARGV[4]), ARGV[5])
end
if problem == MORE then
  touch()
  save_result('MORE')
  return MORE
elseif not plan then
  return problem
end

if plan.removed == 0 then
  touch()
else
  remove_planned(list, plan)
end
if not is_empty(list) then
  end_search(list)
end
sweep(list)
shrink(list)
save_result(plan.removed)
return plan.removed
