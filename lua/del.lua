-- Deletes the list.
--
-- KEYS  1 meta
-- Reply 1 if the list had elements, else 0; then 1 if shards are still to be swept, else 0
-- Cost  O(1): the pointers leave the shards at once, which are unlinked here only up to a bound.
--
-- What is left is remembered in meta, where every later operation goes on with it.

local list, problem = open()
if problem then
  return problem
end
if is_empty(list) then
  sweep(list)
  return { 0, list.lo and 1 or 0 }
end
delete(list)
return { 1, list.lo and 1 or 0 }
