-- What meta says of the list, and its length.
--
-- KEYS  1 meta
-- Reply first, last, capacity (0 if the list is empty), length, 1 if somebody waits, shards still to be swept at most
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
