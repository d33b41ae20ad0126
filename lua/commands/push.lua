-- Pushes values onto one end, all of them or none, as LPUSH and RPUSH do, or only if the list has elements, as LPUSHX and
-- RPUSHX do.
--
-- requires: fast/push shared/session shared/length shared/sweep shared/put shared/carve shared/take_in
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 'L' or 'R', 5 the capacity if the list outgrows its key, or what shared/shards.lua
--       takes in place of it, or '' if the list must not be created, 6… the values. Without values, the push counts as done,
--       and earlier copies of it have no effect any more
-- Reply the length of the list, or 0 if the push must not create it. An error changes nothing
-- Cost  O(values).
--
-- Safe because it reads every key before the first write, and because that write may grow the data set: OOM refuses it with
-- nothing changed.

local VALUES = 6

local done, failure = replay()
if done or failure then
  return tonumber(done) or failure
end
local at_left = ARGV[4] == 'L'
local says = ARGV[VALUES] and (BESIDE == '^' and popped_at or pushed_at)(at_left) or nil
local list, problem = open(ARGV[VALUES] and 'growing', false, says)
if problem then
  return problem
end
local left, count, cap = at_left, #ARGV - VALUES + 1, tonumber(ARGV[5])

local head, tail, length = measure(list)
if not head then
  return tail
end
if is_empty(list) and not cap then
  sweep(list)
  save_result(0)
  return 0
end
local bytes = 0
for i = VALUES, #ARGV do
  bytes = bytes + #ARGV[i]
end
local room, plan = plan_put(list, left, left and head or tail, count, cap, bytes / math.max(1, count))
if not room then
  return plan
end

put_planned(list, left, room, plan, ARGV, VALUES)
if room == math.huge then
  carve_at_times(list, left, left and head or tail, count)
end
sweep(list)
if count == 0 then
  touch()
end
save_result(length + count)
return length + count
