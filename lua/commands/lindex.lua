-- Returns the element at an index, as LINDEX does.
--
-- requires: fast/lindex shared/index shared/take_in
--
-- KEYS  1 meta
-- ARGV  1 the index
-- Reply the element, or nil if the index is out of range
-- Flags allow-oom
-- Cost  O(1) in the number of shards, O(capacity) within one.

local list, problem = open('reading')
if problem then
  return problem
end
local head, tail, length = measure(list)
if not head then
  return tail
end
local id, offset = locate(list, head, length, tonumber(ARGV[1]))
return id and (redis.call('LINDEX', list.shards .. id, offset) or missing(list, id))
