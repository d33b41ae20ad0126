-- Returns the length of the list, as LLEN does.
--
-- requires: shared/length shared/take_over
--
-- KEYS  1 meta
-- ARGV  none
-- Reply the length
-- Cost  O(1): all shards between the ends are full.

local list, problem = open('reading')
if problem then
  return problem
end
local head, tail, length = measure(list)
return head and length or tail
