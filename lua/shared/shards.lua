-- New shards, and the TTLs of shards.
--
-- A key at the id of a new shard may still hold stale elements, which a sweep has not reached yet. It is not unlinked first:
-- while its slot moves, a deleted key cannot be created again on the node that gives the slot away. So new elements are pushed
-- to it, and then the stale ones are trimmed.
--
-- requires: shared/list shared/pieces

-- trim_stale removes stale elements after others have been pushed to the left of them, or to the right.
local function trim_stale(list, id, stale, left)
  if stale > 0 then
    redis.call('LTRIM', list.shards .. id, left and 0 or stale, left and -1 - stale or -1)
  end
end

-- set_ttl lets a shard expire at that time, or never.
local function set_ttl(list, id, shard_ttl)
  if shard_ttl then
    redis.call('PEXPIREAT', list.shards .. id, shard_ttl)
  else
    redis.call('PERSIST', list.shards .. id)
  end
end

-- claim_shard completes a new shard after its elements have been pushed: it drops the stale elements, and their TTL.
local function claim_shard(list, id, stale, left, shard_ttl)
  trim_stale(list, id, stale, left)
  if shard_ttl or stale > 0 then
    set_ttl(list, id, shard_ttl)
  end
end

-- beside_part tells whether the neighbour of an end shard is the part, see shared/carve.lua.
local function beside_part(list, left)
  return list.part ~= nil and list.part == (left and list.first + 1 or list.last - 1)
end

-- capacity_for returns how many elements of that many bytes on the average a shard has, if nobody has set a capacity. In place
-- of one, cap is 0; or -1 if the server compresses lists but for their ends: then a shard has four times the bytes.
local function capacity_for(bytes, cap)
  return math.max(LEAST, math.min(MOST, math.floor(SHARD_BYTES * (cap < 0 and 4 or 1) / math.max(1, bytes))))
end

-- bytes_of returns the average length of elements at the ends of a list at a key.
local function bytes_of(key)
  local sum, count = 0, 0
  for _, values in ipairs({ redis.call('LRANGE', key, 0, 3), redis.call('LRANGE', key, -4, -1) }) do
    for _, value in ipairs(values) do
      sum, count = sum + #value, count + 1
    end
  end
  return sum / math.max(1, count)
end

-- capacity_beside returns the capacity for a list whose only shard is a long one: cap, or less, so that one script may move the
-- elements of a full shard, if they are about as large as those at the ends.
local function capacity_beside(list, cap)
  local bytes = bytes_of(list.shards .. list.first)
  cap = cap > 0 and cap or capacity_for(bytes, cap)
  return math.max(1, math.min(cap, MOVE_STEP, math.floor(MOVE_BYTES / math.max(1, bytes))))
end
