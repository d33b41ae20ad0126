-- Returns what OBJECT says of the first shard.
--
-- requires: shared/list shared/of_key
--
-- KEYS  1 meta
-- ARGV  the words of the command
-- Reply that of OBJECT; or 'KEY' and what it is for the key if there is no list
-- Flags allow-oom
-- Cost  O(1).

local list, problem = open('reading', true)
if problem then
  return problem
end
if is_empty(list) then
  return of_key(1, false)
end
problem = unreadable(list, list.first)
if problem then
  return problem
end
return redis.call('OBJECT', ARGV[2], list.shards .. list.first)
