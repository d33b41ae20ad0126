-- Moves elements from one end of a list to one end of another or of the same list, as LMOVE and LMOVEM do, for a caller that
-- may want to wait for them.
--
-- KEYS  see lists.lua: the source is the first list, the destination the second
-- ARGV  1 to 4 see lists.lua, 5 and 6 the ends of source and destination, 'L' or 'R', 7 the capacity if this creates the
--       destination, 8 count; with 0, the operation counts as done, and earlier copies of it can do nothing any more;
--       9 '1' to move count elements or none, 10 '1' to move them one by one, else they stay in the order of the source;
--       11 how the caller waits, and 12 its release key, as in pop.lua
-- Reply 0, or 1 if the operation had been done before, or 2 if it moved nothing and the source has elements; then an array
--       of the elements moved, in the order of the destination
-- Cost  O(elements moved), and that times the capacity if they are reversed within one list.
--
-- Safe because every key of both lists is read before the first write. That is one at the destination, which may grow the
-- data set, so that a full server refuses it with nothing changed. On the same list, too, elements are put before they are
-- taken: it is never empty in between, so its capacity and its shards stay.
--
-- No wake-up is lost: a woken move passes it on at the source, see pop.lua, and the destination rings as for a push.

local FROM_LEFT, TO_LEFT = ARGV[5] == 'L', ARGV[6] == 'L'
local WOKEN = ARGV[11] == 'woken'
local RELEASE = ARGV[12]

use(1)
local source, problem = open()
if problem then
  return problem
end
local done, stale_operation = recall()
if done then
  local _, moved = recalled(done)
  return { 1, moved }
elseif stale_operation then
  return stale_operation
end
local count = tonumber(ARGV[8])
local released = WOKEN and is_released(RELEASE)
if released then
  count = 0
end

-- Look: what the source gives, and in which order.
local taking, gap = plan_take(source, FROM_LEFT, count)
if taking and ARGV[9] == '1' and taking.total < count then
  taking, gap = plan_take(source, FROM_LEFT, 0)
end
if not taking then
  return gap
end
local total = taking.total
local reversed = ARGV[10] == '1' and FROM_LEFT == TO_LEFT
local same = KEYS[1] == KEYS[2]
local in_place = same and FROM_LEFT == TO_LEFT
local moved = {} -- in the order of the destination
local places = {} -- of the elements in the order of the source, if they stay: shard and index
local before = 0
for i, part in ipairs(taking) do
  local id = taking.near + (i - 1) * taking.step
  local from = FROM_LEFT and 0 or -part
  for k, value in ipairs(redis.call('LRANGE', PREFIX .. id, from, from + part - 1)) do
    local at = FROM_LEFT and before + k or total - before - part + k
    moved[reversed and total + 1 - at or at] = value
    if in_place then
      places[at] = { id, from + k - 1 }
    end
  end
  before = before + part
end
local empties = taking.empties and not (same and total > 0)
local waits = ARGV[11] == 'first' and total == 0 and empties
local passes = (WOKEN or waits) and bell_at_hand()
local no_record = record_problem(total)
if no_record then
  return no_record
end

-- Look: where the destination takes them.
local destination = source
local putting
if total > 0 and not in_place then
  use(2)
  if not same then
    destination, problem = open('growing')
    if problem then
      return problem
    end
  end
  local near = TO_LEFT and destination.first or destination.last
  local size = 0
  if not is_empty(destination) then
    size = redis.call('LLEN', PREFIX .. near)
    if size == 0 then
      return missing(near)
    end
  end
  putting, gap = plan_put(destination, TO_LEFT, size, total, tonumber(ARGV[7]))
  if not putting then
    return gap
  end
end

-- Write.
if released then
  redis.call('DEL', RELEASE)
end
if putting then
  local values = moved
  if TO_LEFT then
    values = {}
    for i, value in ipairs(moved) do
      values[total + 1 - i] = value
    end
  end
  put_planned(destination, putting, values, 1)
  if same then
    taking = plan_take(source, FROM_LEFT, total) -- again, as shards have grown: all of them have been read
  else
    sweep(destination)
    use(1)
  end
  take_planned(source, taking, passes)
elseif reversed then
  for i, place in ipairs(places) do
    redis.call('LSET', PREFIX .. place[1], place[2], moved[i])
  end
end
if passes then
  pass_on(source)
end
sweep(source)
remember_elements('', { moved }, total)
return { total == 0 and not is_empty(source) and 2 or 0, total > 0 and moved or nil }
