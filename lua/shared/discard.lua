-- Deletes a list.
--
-- requires: shared/list shared/sweep

-- discard deletes a list that has elements, in the same way as an expired one. OOM allows its first write.
local function discard(list)
  if list.short and not list.has_meta then -- the list is its key; meta, if there was one, would be on another node
    detach(list)
    return
  end
  -- An error if an end shard is no list or is away. A missing shard is no reason to keep the others.
  redis.call('LLEN', list.shards .. list.first)
  redis.call('LLEN', list.shards .. list.last)
  empty_expired(list)
  sweep(list)
end
