-- Inserts a value before or after the leftmost element that equals a pivot, as LINSERT.
--
-- KEYS  1 meta
-- ARGV  1 to 3 see lane.lua, 4 'before' or 'after', in whatever case, 5 the pivot, 6 the value
-- Reply the length of the list, -1 if there is no pivot, 0 if there is no list, or an error that left everything as it was
-- Cost  O(elements up to the pivot), two calls a shard; then three calls for each shard from there to the nearer end.
--
-- The shard that is then one over its capacity hands an element on to its neighbour, and so on to the nearer end of the list.
--
-- Safe because every shard on the way is read before the first write, and because that write (LINSERT) may grow the data
-- set, so that a full server refuses it with nothing changed. No shard is ever without elements in between: while its slot
-- is moving, a key that goes cannot come back.

local list, problem = open('growing')
if problem then
  return problem
end
local done, stale_operation = recall()
if done or stale_operation then
  return tonumber(done) or stale_operation
end
local where, pivot, value = string.lower(ARGV[4]), ARGV[5], ARGV[6]
if where ~= 'before' and where ~= 'after' then
  return refuse('ERR syntax error')
end
local head, tail, length = measure(list)
if not head then
  return tail
end

-- Look: where the pivot is, and which shards pass an element on.
local id = list.first
while id <= list.last and not redis.call('LPOS', PREFIX .. id, pivot) do
  if redis.call('LLEN', PREFIX .. id) == 0 then
    return missing(id)
  end
  id = id + 1
end
if id > list.last then
  local result = length == 0 and 0 or -1
  sweep(list)
  remember(result)
  return result
end
local left = id - list.first < list.last - id
local step, stop, room = 1, list.last, list.cap - tail
if left then
  step, stop, room = -1, list.first, list.cap - head
end
if room < 0 then
  return redis.error_reply('BROKENLIST an end shard holds more than the capacity')
end
for on_the_way = id + step, stop, step do
  if redis.call('LLEN', PREFIX .. on_the_way) == 0 then
    return missing(on_the_way)
  end
end
local stale, ends
if room == 0 then
  stop = stop + step
  stale, problem = beneath(list, stop)
  if problem then
    return problem
  end
  ends = lease(list)
end

-- Write: the value, the elements passed on, then the pointer.
redis.call('LINSERT', PREFIX .. id, where, pivot, value)
for from = id, stop - step, step do
  local passed = redis.call(left and 'LPOP' or 'RPOP', PREFIX .. from)
  redis.call(left and 'RPUSH' or 'LPUSH', PREFIX .. (from + step), passed)
end
if stale then
  adopt(stop, stale, not left, ends)
  list[left and 'first' or 'last'] = stop
  redis.call('HSET', META, left and 'first' or 'last', stop)
end
sweep(list)
remember(length + 1)
return length + 1
