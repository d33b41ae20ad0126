-- Returns what OBJECT says of the first shard.
--
-- requires: shared/list
--
-- KEYS  1 meta
-- ARGV  1 the subcommand
-- Reply that of OBJECT, or nil if the list is empty
-- Flags allow-oom
-- Cost  O(1).

local list, problem = open('reading', true)
if problem then
  return problem
end
return not is_empty(list) and redis.call('OBJECT', ARGV[1], list.shards .. list.first)
