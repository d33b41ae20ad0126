-- The element at an index, as LINDEX.
--
-- KEYS  1 meta
-- ARGV  1 the index, from 0, or from the right end if negative
-- Reply the element, or nil if there is none at that index
-- Cost  O(1) in the number of shards, O(capacity) within one.

local list, problem = open('reading')
if problem then
  return problem
end
local head, tail, length = measure(list)
if not head then
  return tail
end
local index = tonumber(ARGV[1])
if index < 0 then
  index = index + length
end
if index < 0 or index >= length then
  return false
end
local id, offset = locate(list, head, index)
return redis.call('LINDEX', PREFIX .. id, offset) or missing(id)
