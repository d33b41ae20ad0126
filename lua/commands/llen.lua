-- Returns the length of the list, as LLEN does.
--
-- requires: shared/length shared/take_in
--
-- KEYS  1 meta
-- ARGV  1 'any' for EXISTS and TYPE, of which the caller serves plain keys, or 'beside' if also lists there; else none
-- Reply the length
-- Flags allow-oom
-- Cost  O(1): all shards between the ends are full.

local list, problem = open('reading', ARGV[1] ~= nil)
if problem then
  return problem
end
if ARGV[1] == 'beside' and type(list.shards) == 'table' then
  return 0 -- it is the plain key
end
local head, tail, length = measure(list)
return head and length or tail
