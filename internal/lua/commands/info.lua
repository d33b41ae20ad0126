-- Returns the fields of meta and the length of the list.
--
-- requires: shared/length shared/take_over
--
-- KEYS  1 meta
-- ARGV  none
-- Reply first, last, the capacity (0 if the list is empty), the length, 1 if a consumer waits or else 0, how many ids are
--       still to be swept, and the prefix of the shards' keys, '' if there is no meta
-- Cost  O(1).

local list, problem = open('reading')
if problem then
  return problem
end
local head, tail, length = measure(list)
if not head then
  return tail
end
local capacity = is_empty(list) and 0 or list.cap
local unswept = 0
for _, range in ipairs(list.stale or {}) do
  unswept = unswept + range.hi - range.lo + 1
end
return { list.first, list.last, capacity, length, list.armed and 1 or 0, unswept, list.shards or '' }
