-- Turns a list that has become short into the plain list of its name.
--
-- requires: shared/list

-- shrink makes the only shard the plain key, if it is at most half full. Half, so that a stack at the border does not flip at
-- each call. It leaves a mark, for what looks for plain lists first and for metas then: it must find the list, or the mark.
local function shrink(list)
  if not PLAIN or list.restored or list.restores or list.gathers or list.stale or list.first ~= list.last then
    return
  end
  local shard = list.shards .. list.first
  local size = redis.pcall('LLEN', shard)
  local cap = list.steps and math.max(LEAST, cap_at(list, list.first)) or list.cap
  if type(size) ~= 'number' or size > cap / 2 or redis.pcall('EXISTS', META, shard, PLAIN) ~= 2 then
    return
  end
  redis.call('RENAME', shard, PLAIN)
  redis.pcall('SET', PREFIX .. 'short.meta', '', 'EX', 3600)
  if list.expires then
    redis.call('PEXPIREAT', PLAIN, redis.call('HGET', META, 'expires'))
    redis.call('HDEL', META, 'expires', 'ttl', 'walk')
  else
    redis.call('PERSIST', PLAIN)
  end
  list.short, list.restored, list.has_meta = { cap = list.cap, shards = list.shards }, PLAIN, true
  list.expires, list.more, list.join, list.steps = nil, nil, 0, nil
  list.shards, list.cap = prefix_of(PLAIN), UNLIMITED
  save_list(list)
end
