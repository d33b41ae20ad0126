-- Takes over a plain list.
--
-- A list and a plain list of its name are one list. Where the list is empty, the plain list becomes its only shard, by one
-- RENAME, however long it is: nothing else has to be moved, and nobody has to wait. shared/carve.lua says what becomes of a
-- long shard.
--
-- requires: shared/list shared/ring

local TAKEN_CAPACITY = 512 -- as DefaultCapacity in internal/oneslot
local GRACE_MS = 60000 -- how long a shard outlives a list that expires, at the least

-- taken_prefix returns a prefix that no other list has. shared/identity.lua explains it; this one must do for scripts without a
-- session.
local function taken_prefix(key)
  local time = table.concat(redis.call('TIME'))
  local identity = redis.sha1hex(time .. key .. redis.call('LLEN', key) .. redis.call('LINDEX', key, 0))
  return PREFIX .. '#' .. string.sub(identity, 1, 12) .. '.' .. time .. ':'
end

-- expire_taken lets the list of one shard expire when the plain list did. commands/expire.lua explains the fields.
local function expire_taken(list, ttl)
  local now = clock()
  local near = math.min(now + ttl, 2 ^ 53) -- numbers up to here are exact
  local shard_ttl = string.format('%.0f', 2 * near - now + 2 * GRACE_MS)
  list.expires, list.now, list.more = near, now, true
  save_list(list)
  redis.call('HSET', META, 'expires', string.format('%.0f', list.expires), 'ttl', shard_ttl)
  redis.call('PEXPIREAT', list.shards .. list.first, shard_ttl)
  if not list.stale then
    redis.call('PEXPIREAT', META, string.format('%.0f', tonumber(shard_ttl) + GRACE_MS))
  end
end

-- take_over makes the plain list at the key the only shard of the list, which is empty. It returns an error if it cannot, with
-- nothing changed. Its first write is a RENAME, which OOM allows. Without a capacity, the list gets TAKEN_CAPACITY; the push
-- that makes the second shard beside a long one may change that.
function take_over(list, key, cap)
  local stem = string.match(key, '^(.*):bell$')
  if stem and type(redis.pcall('HGET', stem .. ':meta', 'layout')) == 'string' then
    return redis.error_reply('RESERVED the key belongs to the sharded list that has ' .. stem .. ':meta')
  end
  local prefix = list.shards or taken_prefix(key)
  local shard = prefix .. list.first
  if is_moving(redis.pcall('EXISTS', key, shard)) then
    return redis.error_reply('TRYAGAIN the list is moving to another node')
  end
  local ttl = redis.call('PTTL', key)
  local rings = list.armed and not is_away(BELL) and type(redis.pcall('LLEN', BELL)) == 'number'
  redis.call('RENAME', key, shard)
  list.shards, list.last, list.cap, list.armed = prefix, list.first, cap or TAKEN_CAPACITY, false
  list.only_records, list.more = nil, nil
  redis.call('HDEL', META, 'expires', 'ttl', 'walk') -- of a list that has expired
  save_list(list)
  redis.call('PERSIST', META)
  redis.call('PERSIST', shard)
  if ttl >= 0 then
    expire_taken(list, ttl)
  end
  if rings then
    ring()
  end
end
