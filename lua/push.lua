-- Pushes values onto one end, all of them or none, as LPUSH and RPUSH do; or only if the list has elements, as LPUSHX and
-- RPUSHX do.
--
-- KEYS  1 meta
-- ARGV  1 to 3 see lane.lua, 4 'L' or 'R', 5 the capacity if this push creates the list, '' if it must not, 6… the values;
--       with none, the operation counts as done, and earlier copies of it can do nothing any more
-- Reply the length of the list, 0 if it was not to be created, or an error that left everything as it was
-- Cost  O(values).
--
-- Safe because every key is read before the first write, and because that write may grow the data set, so that a full
-- server refuses it with nothing changed.

local list, problem = open(ARGV[6] and 'growing')
if problem then
  return problem
end
local done, stale_operation = recall()
if done or stale_operation then
  return tonumber(done) or stale_operation
end
local left = ARGV[4] == 'L'
local PUSH = left and 'LPUSH' or 'RPUSH'
local VALUES = 6
local count = #ARGV - VALUES + 1
local was_empty = is_empty(list)

-- Look: how much room the end shard has, and that the shards after it may be made.
local head, tail, length = measure(list)
if not head then
  return tail
end
local cap = list.cap
local room = 0
if was_empty then
  cap = tonumber(ARGV[5])
  if not cap then
    sweep(list)
    remember(0)
    return 0
  end
else
  room = cap - (left and head or tail)
  if room < 0 then
    return redis.error_reply('BROKENLIST an end shard holds more than the capacity')
  end
end
local step = left and -1 or 1
local near = left and list.first or list.last
local made = math.max(0, math.ceil((count - room) / cap))
local stale = {} -- by id, how many elements of a deleted list stand there
for i = 1, made do
  local id = near + i * step
  stale[id], problem = beneath(list, id)
  if problem then
    return problem
  end
end
local ends = made > 0 and lease(list)
local must_ring = list.armed and made > 0 and bell_at_hand()

-- Write: the pointers, then the values.
if made > 0 then
  list.first = left and list.first - made or list.first
  list.last = left and list.last or list.last + made
  redis.call('HSET', META, 'layout', LAYOUT, 'first', list.first, 'last', list.last, 'cap', cap, 'armed', 0)
end
local from = VALUES
for i = 0, made do
  local id = near + i * step
  local to = math.min(#ARGV, from + (i == 0 and room or cap) - 1)
  push_values(PUSH, PREFIX .. id, ARGV, from, to)
  if i > 0 then
    adopt(id, stale[id], left, ends)
  end
  from = to + 1
end
if was_empty and made > 0 then
  redis.call('PERSIST', META)
end
if must_ring then
  ring()
end
sweep(list)
if count == 0 then
  touch()
end
remember(length + count)
return length + count
