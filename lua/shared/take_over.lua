-- Takes over a plain list.
--
-- A list that outgrows its plain key becomes a list of shards by one RENAME, however long it is: nothing else has to be moved,
-- and nobody has to wait. shared/carve.lua says what becomes of a long shard.
--
-- requires: shared/list shared/ring shared/shards

-- taken_prefix returns a prefix that no other list has, for scripts that do not require shared/identity.lua, which explains it.
local function taken_prefix(key)
  local time = table.concat(redis.call('TIME'))
  local identity = redis.sha1hex(time .. key .. redis.call('LLEN', key) .. redis.call('LINDEX', key, 0))
  return PREFIX .. '#' .. string.sub(identity, 1, 12) .. '.' .. time .. ':'
end

-- expire_all lets the list expire as a plain list does that has so many milliseconds left. Most such lists have one shard.
-- Each shard gets its TTL at once, since meta must not promise what a client that dies would leave undone.
-- commands/expire.lua explains the fields.
local expire_all
do
  local GRACE_MS = 60000 -- how long a shard outlives a list that expires, at the least

  function expire_all(list, ttl)
    local now = clock()
    local near = math.min(now + ttl, 2 ^ 53) -- numbers up to here are exact
    local at = string.format('%.0f', near)
    local shard_ttl = list.expires and list.ttl
    if not shard_ttl or tonumber(shard_ttl) < near + GRACE_MS or list.more then
      shard_ttl = string.format('%.0f', 2 * near - now + 2 * GRACE_MS)
      for id = list.first, list.last do
        redis.call('PEXPIREAT', list.shards .. id, shard_ttl)
      end
    end
    list.expires, list.now, list.more, list.ttl = near, now, true, shard_ttl
    save_list(list)
    redis.call('HDEL', META, 'walk')
    redis.call('HSET', META, 'expires', at, 'ttl', shard_ttl)
    if list.stale then
      redis.call('PERSIST', META)
    else
      redis.call('PEXPIREAT', META, string.format('%.0f', tonumber(shard_ttl) + GRACE_MS))
    end
  end
end

-- take_over makes the plain list at a key the only shard of the list, which is empty. It returns an error if it cannot, with
-- nothing changed. Its first write is a RENAME, which OOM allows. cap is as for plan_put; the push that makes the second
-- shard beside a long one may change it. says is as for open.
local function take_over(list, key, cap, says)
  local owner = rung_by(key)
  if owner then
    return redis.error_reply('RESERVED the key belongs to the sharded list that has ' .. owner)
  end
  local prefix = list.shards or CREATES and new_prefix() or taken_prefix(key)
  local shard = prefix .. list.first
  if is_moving(redis.pcall('EXISTS', key, shard)) then
    return redis.error_reply('TRYAGAIN the list is moving to another node')
  end
  local ttl = redis.call('PTTL', key)
  local rings = list.armed and not is_away(BELL) and type(redis.pcall('LLEN', BELL)) == 'number'
  redis.call('RENAME', key, shard)
  list.shards, list.last, list.armed = prefix, list.first, false
  list.cap, list.steps = cap > 0 and cap or capacity_for(bytes_of(shard), cap), nil
  list.only_records, list.more, list.found, list.join = nil, nil, true, join_after(list.join, says)
  if redis.call('EXISTS', META) == 1 then
    redis.call('HDEL', META, 'expires', 'ttl', 'walk') -- of a list that has expired
    redis.call('PERSIST', META)
  end
  save_list(list)
  if ttl >= 0 then
    expire_all(list, ttl)
  end
  if rings then
    ring()
  end
end

-- wake_restored rings for the consumer that waits at a restored list, if a process that does not ring has pushed to it.
function wake_restored(list)
  if is_away(BELL) then
    return
  end
  redis.call('LLEN', BELL) -- an error if it is no list
  redis.call('HDEL', META, 'armed') -- changes nothing, and OOM allows it
  list.armed, list.found = false, true
  save_list(list)
  ring()
end

-- In each call:

TAKES_OVER = true
