-- Returns the elements from one index to another, both included, as LRANGE does.
--
-- requires: shared/index shared/take_in
--
-- KEYS  1 meta
-- ARGV  1 start, 2 stop
-- Reply arrays of elements, one for each shard
-- Flags allow-oom
-- Cost  O(elements returned + capacity), wherever in the list they are.

local list, problem = open('reading')
if problem then
  return problem
end
local start, stop = tonumber(ARGV[1]), tonumber(ARGV[2])
local is_only = list.first == list.last
if is_only or not is_empty(list) and (start < 0) == (stop < 0) and stop - start < list.cap then
  -- Most pages lie in an end shard, and need no lengths.
  local near = list.shards .. (start < 0 and list.last or list.first)
  local page = redis.call('LRANGE', near, ARGV[1], ARGV[2])
  if #page > 0 and (is_only or #page > stop - start) then
    return { page }
  end
end

local head, tail, length = measure(list)
if not head then
  return tail
end
start, stop = clamp(start, stop, length)

local found = {}
local id, offset = locate(list, head, length, start)
while start <= stop do
  local take = math.min(stop - start + 1, length_of(list, id, head, tail) - offset)
  local elements = redis.call('LRANGE', list.shards .. id, offset, offset + take - 1)
  if #elements < take then
    return missing(list, id)
  end
  found[#found + 1] = elements
  start, id, offset = start + take, id + 1, 0
end
return found
