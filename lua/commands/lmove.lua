-- Moves elements from one end of a list to an end of another or of the same list, as LMOVE and LMOVEM do. The caller may wait
-- for them.
--
-- requires: shared/elements shared/sweep shared/lists shared/wake shared/pass_on shared/take shared/put shared/take_in
--
-- KEYS  see shared/lists.lua: the source is the first list, the destination the second
-- ARGV  1 to 4 see shared/lists.lua, 5 and 6 the ends of source and destination, 'L' or 'R', 7 the capacity if this creates the
--       destination, 8 count: with 0, the move counts as done, and earlier copies of it have no effect any more; 9 '1' to move
--       count elements or none, 10 '1' to move them one by one, else they keep the order of the source; 11 how the caller
--       waits, and 12 its release key, as in pop.lua
-- Reply 0, or 1 if the move had been done before, or 2 if it moved nothing and the source has elements; then an array of the
--       elements moved, in the order of the destination
-- Cost  O(elements moved), times the capacity if it reverses them within one list.
--
-- Safe because it reads every key of both lists before the first write. That one is at the destination and may grow the data
-- set: OOM refuses it with nothing changed. On one and the same list, too, it pushes before it pops: the list is never empty in
-- between, so it keeps its capacity and its shards.
--
-- No wake-up is lost: a woken move passes it on at the source, see pop.lua, and the destination rings as for a push.

local FROM_LEFT, TO_LEFT = ARGV[5] == 'L', ARGV[6] == 'L'
local WOKEN = ARGV[11] == 'woken'
local WAITS = ARGV[11] == 'first' or ARGV[11] == 'again'
local RELEASE = ARGV[12]

use(1)
local done, failure = replay()
if done then
  local _, moved = replay_elements(done)
  return { 1, moved }
elseif failure then
  return failure
end
local full = BESIDE and no_memory() -- what is taken from a plain list is the first write, and OOM allows all others
local source, problem = open((WOKEN or ARGV[11] == 'again') and 'waiting', false, popped_at(FROM_LEFT))
if problem then
  return problem
end
local count = tonumber(ARGV[8])
local released = WOKEN and is_released(RELEASE)
if released then
  count = 0
end

-- Read: the elements of the source, and their order.
local parts, total, stop = plan_take(source, FROM_LEFT, count)
if parts and ARGV[9] == '1' and total < count then
  parts, total, stop = plan_take(source, FROM_LEFT, 0)
end
if not parts then
  return total
end
local reversed = ARGV[10] == '1' and FROM_LEFT == TO_LEFT
local same = KEYS[1] == KEYS[2]
local in_place = same and FROM_LEFT == TO_LEFT
local moved = {} -- in the order of the destination
local places = {} -- shard and index of each element, in the order of the source, if the elements stay in their places
local before = 0
local id, step = FROM_LEFT and source.first or source.last, FROM_LEFT and 1 or -1
for _, part in ipairs(parts) do
  local from = FROM_LEFT and 0 or -part
  for k, value in ipairs(redis.call('LRANGE', source.shards .. id, from, from + part - 1)) do
    local at = FROM_LEFT and before + k or total - before - part + k
    moved[reversed and total + 1 - at or at] = value
    if in_place then
      places[at] = { id, from + k - 1 }
    end
  end
  before = before + part
  id = id + step
end
local empties = (stop < source.first or stop > source.last) and not (same and total > 0)
local waits = WAITS and total == 0 and empties
local passes = (WOKEN or waits) and BESIDE ~= '.' and bell_is_here()
problem = elements_problem(total)
if problem then
  return problem
end

-- Read: the shards of the destination.
local destination = source
local room, plan
if total > 0 and not in_place then
  if full then
    return full
  end
  use(2)
  if not same then
    destination, problem = open('growing', false, pushed_at(TO_LEFT))
    if problem then
      return problem
    end
  end
  local size = 0
  if not is_empty(destination) then
    size, problem = shard_length(destination, TO_LEFT and destination.first or destination.last)
    if not size then
      return problem
    end
  end
  room, plan = plan_put(destination, TO_LEFT, size, total, tonumber(ARGV[7]), #moved[1])
  if not room then
    return plan
  end
end

if released then
  redis.call('DEL', RELEASE)
end
if room then
  local values = moved
  if TO_LEFT then
    values = {}
    for i, value in ipairs(moved) do
      values[total + 1 - i] = value
    end
  end
  put_planned(destination, TO_LEFT, room, plan, values, 1)
  if same then
    parts, total, stop = plan_take(source, FROM_LEFT, total) -- again, since shards have grown: it reads no new key
  else
    sweep(destination)
    use(1)
  end
  take_planned(source, FROM_LEFT, parts, stop, passes)
elseif reversed then
  for i, place in ipairs(places) do
    redis.call('LSET', source.shards .. place[1], place[2], moved[i])
  end
  save_searches(source, FROM_LEFT and source.first or id, FROM_LEFT and id or source.last)
end
if passes then
  pass_on(source)
end
sweep(source)
save_elements('', { moved }, total)
return { total == 0 and not is_empty(source) and 2 or 0, total > 0 and moved or nil }
