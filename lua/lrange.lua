-- The elements from one index to another, both included, as LRANGE.
--
-- KEYS  1 meta
-- ARGV  1 start, 2 stop, from 0, or from the right end if negative
-- Reply arrays of elements, one for each shard they are in
-- Cost  O(elements returned + capacity), wherever in the list they are.

local list, problem = open('reading')
if problem then
  return problem
end
local head, tail, length = measure(list)
if not head then
  return tail
end
if length == 0 then
  return {}
end
local start, stop = tonumber(ARGV[1]), tonumber(ARGV[2])
if start < 0 then
  start = math.max(0, start + length)
end
if stop < 0 then
  stop = stop + length
end
stop = math.min(stop, length - 1)

local found = {}
local id, offset = locate(list, head, start)
while start <= stop do
  local size = list.cap
  if id == list.first then
    size = head
  elseif id == list.last then
    size = tail
  end
  local take = math.min(stop - start + 1, size - offset)
  local elements = redis.call('LRANGE', PREFIX .. id, offset, offset + take - 1)
  if #elements < take then
    return missing(id)
  end
  found[#found + 1] = elements
  start, id, offset = start + take, id + 1, 0
end
return found
