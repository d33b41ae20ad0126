-- Returns the next shards of the list, from left to right.
--
-- requires: shared/list
--
-- KEYS  1 meta
-- ARGV  1 the id of the shard to start at, 2 the id of the last shard to read, both '' in the first call, 3 how many elements
--       are enough
-- Reply the id to continue at ('' at the end), the id of the last shard to read, and arrays of elements, one for each shard
-- Cost  O(elements returned), and at least one shard.
--
-- Elements stay in their shard, unless LINSERT or LREM moves them. So an element that is in the list from the first call to the
-- last is read exactly once.

local list, problem = open('reading')
if problem then
  return problem
end
local id = math.max(tonumber(ARGV[1]) or list.first, list.first)
local final = math.min(tonumber(ARGV[2]) or list.last, list.last)
local wanted = tonumber(ARGV[3])
local found = {}
while id <= final and wanted > 0 do
  local elements = redis.call('LRANGE', list.shards .. id, 0, -1)
  if #elements == 0 then
    return missing(list, id)
  end
  found[#found + 1] = elements
  wanted = wanted - #elements
  id = id + 1
end
return { id <= final and tostring(id) or '', tostring(final), found }
