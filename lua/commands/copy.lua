-- Copies the list, as COPY does.
--
-- requires: shared/transfer
--
-- KEYS  see shared/transfer.lua
-- ARGV  see shared/transfer.lua
-- Reply see shared/transfer.lua
-- Cost  O(elements), and three calls a shard. The sweep is bounded.
--
-- Safe for what shared/transfer.lua says.

local from, to, must_ring = open_both(true)
if not from then
  return to
end

-- find_shards returns the error for a shard that is not here.
local function find_shards()
  for id = from.first, from.last do
    local size, reason = shard_length(from, id)
    if not size then
      return reason
    end
  end
end

-- copy makes new shards, with ids beyond those that are still to be swept, and then meta. It returns an error if it cannot.
local function copy()
  identify(to)
  local shift = to.first - from.first
  local problem = find_shards()
  if problem then
    return problem
  end
  for id = from.first, from.last do
    redis.call('LLEN', to.shards .. (id + shift))
  end
  local expiry = redis.call('HMGET', KEYS[1], 'expires', 'ttl', 'walk')
  local meta_ttl = redis.call('PTTL', KEYS[1])
  for id = from.first, from.last do
    redis.call('COPY', from.shards .. id, to.shards .. (id + shift), 'REPLACE')
  end
  to.last = from.last + shift
  redis.call('HDEL', META, 'expires', 'ttl', 'walk')
  to.cap, to.armed, to.join, to.expires = from.cap, false, from.join, from.expires
  to.more = expiry[1] or expiry[2] or expiry[3]
  to.part = from.part and from.part + shift
  to.begun, to.steps = from.begun, from.steps
  for _, step in ipairs(to.steps or {}) do
    step.id = step.id + shift
  end
  save_list(to)
  for i, field in ipairs({ 'expires', 'ttl', 'walk' }) do
    if expiry[i] then
      redis.call('HSET', META, field, field == 'walk' and expiry[i] + shift or expiry[i])
    end
  end
  redis.call('PERSIST', META)
  if meta_ttl > 0 then
    redis.call('PEXPIRE', META, meta_ttl)
  end
end

-- from_plain makes a copy of the plain list of a restored list the only shard of the other, and rings. It returns an error if
-- it cannot.
local function from_plain()
  identify(to)
  must_ring, to.join = false, from.join
  local shard = to.shards .. to.first
  if is_moving(redis.pcall('EXISTS', from.restored, shard)) then
    return redis.error_reply('TRYAGAIN the list is moving to another node')
  end
  redis.call('COPY', from.restored, shard, 'REPLACE')
  return take_over(to, shard, 0)
end

-- to_plain makes a copy of the list the plain list of a restored one. It returns an error if it cannot.
local function to_plain()
  local key = to.restored
  if is_moving(redis.pcall('EXISTS', key, from.shards .. from.first, PREFIX .. 'never')) then
    return redis.error_reply('TRYAGAIN the list is moving to another node')
  end
  local problem = find_shards()
  if problem then
    return problem
  end
  redis.call('COPY', from.shards .. from.first, key, 'REPLACE')
  for id = from.first + 1, from.last do
    for start = 0, redis.call('LLEN', from.shards .. id) - 1, MOVE_STEP do
      local elements = redis.call('LRANGE', from.shards .. id, start, start + MOVE_STEP - 1)
      push_values('RPUSH', key, elements, 1, #elements)
    end
  end
  keep_expiry(to, from.expires and redis.call('HGET', KEYS[1], 'expires'), from.restored)
  to.armed, to.join = false, from.join
  save_list(to)
end

local problem = (to.restored and to_plain or from.restored and from_plain or copy)()
if problem then
  return problem
end
local verdict = complete(to, must_ring)
use(1)
shrink(from)
save_result(verdict)
return verdict
