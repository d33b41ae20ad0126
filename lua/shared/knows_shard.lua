-- Which shards belong to a list.
--
-- requires: shared/list

-- knows_shard tells whether meta knows a shard, as a part of the list or as one to sweep.
local function knows_shard(list, prefix, id)
  if prefix == list.shards and id >= list.first and id <= list.last then
    return true
  end
  for _, range in ipairs(list.stale or {}) do
    if prefix == range.shards and id >= range.lo and id <= range.hi then
      return true
    end
  end
  return false
end
