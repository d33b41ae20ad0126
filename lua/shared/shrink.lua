-- Turns a list that has become short into the plain list of its name.
--
-- requires: shared/list

-- shrink makes the only shard the plain key, if it is at most half full. Half, so that a stack at the border does not flip at
-- each call.
local function shrink(list)
  if not PLAIN or list.restored or list.restores or list.gathers or list.stale or list.first ~= list.last then
    return
  end
  local shard = list.shards .. list.first
  local size = redis.pcall('LLEN', shard)
  if type(size) ~= 'number' or size > list.cap / 2 or redis.pcall('EXISTS', META, shard, PLAIN) ~= 2 then
    return
  end
  redis.call('RENAME', shard, PLAIN)
  if list.expires then
    redis.call('PEXPIREAT', PLAIN, redis.call('HGET', META, 'expires'))
    redis.call('HDEL', META, 'expires', 'ttl', 'walk')
  else
    redis.call('PERSIST', PLAIN)
  end
  list.short, list.restored, list.has_meta = { cap = list.cap, shards = list.shards }, PLAIN, true
  list.expires, list.more, list.join = nil, nil, 0
  list.shards, list.cap = prefix_of(PLAIN), UNLIMITED
  save_list(list)
end
