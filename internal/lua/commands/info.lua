-- Returns the fields of meta and the length of the list.
--
-- requires: shared/length
--
-- KEYS  1 meta
-- ARGV  none
-- Reply first, last, the capacity (0 if the list is empty), the length, 1 if a consumer waits or else 0, and how many ids are
--       still to be swept
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
local unswept = list.lo and list.hi - list.lo + 1 or 0
return { list.first, list.last, capacity, length, list.armed and 1 or 0, unswept }
