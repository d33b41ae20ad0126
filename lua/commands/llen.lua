-- Returns the length of the list, as LLEN does.
--
-- requires: shared/length shared/take_in shared/of_key
--
-- KEYS  1 meta
-- ARGV  for EXISTS and TYPE the words of the command, else none
-- Reply the length; for those 1 if there is a list, else 'KEY' and the reply of the command
-- Flags allow-oom
-- Cost  O(1): all shards between the ends are full.

local list, problem = open('reading', ARGV[1] ~= nil)
if problem then
  return problem
end
if ARGV[1] then
  return is_empty(list) and of_key(1, false) or 1
end
local head, tail, length = measure(list)
return head and length or tail
