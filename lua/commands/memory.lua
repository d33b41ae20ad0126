-- Returns about how many bytes the list takes, for MEMORY USAGE.
--
-- requires: shared/sample shared/of_key
--
-- KEYS  1 meta
-- ARGV  1 how many shards to look at, then the words of the command for the key if there is no list
-- Reply the bytes: those of the end shards, and for each shard between the mean of some, evenly spread; or 'KEY' and the
--       reply of the command
-- Flags allow-oom
-- Cost  O(1): one MEMORY USAGE for each of these shards.

local list, problem = open('reading', true)
if problem then
  return problem
end
if is_empty(list) then
  return of_key(2, false)
end
problem = unreadable(list, list.first)
if problem then
  return problem
end
return sample(list, tonumber(ARGV[1]))
