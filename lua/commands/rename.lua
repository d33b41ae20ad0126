-- Renames the list, as RENAME and RENAMENX do.
--
-- requires: shared/transfer shared/gather shared/emptied
--
-- KEYS  see shared/transfer.lua
-- ARGV  see shared/transfer.lua
-- Reply see shared/transfer.lua
-- Cost  O(1): it moves meta, which says where the shards are. The sweep is bounded. A list of several shards that is renamed to
--       a restored one is gathered first, in bounded steps.
--
-- Safe for what shared/transfer.lua says.

local GATHER_MS = 1000 -- longer than a caller takes for its next step
local from, to, must_ring = open_both(false)
if not from then
  return to
end

-- records_in returns the dedup records in a meta, as fields and values.
local function records_in(meta)
  local records, all = {}, redis.call('HGETALL', meta)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 3) == 'op:' or all[i] == 'records' then
      table.insert(records, all[i])
      table.insert(records, all[i + 1])
    end
  end
  return records
end

-- keep_records puts the dedup records back into the metas, after the one was renamed: they stay with the names.
local function keep_records(of_source, of_target)
  for i = 1, #of_source, 2 do
    redis.call('HDEL', KEYS[2], of_source[i])
  end
  for i = 1, #of_target, 2 do
    redis.call('HSET', KEYS[2], of_target[i], of_target[i + 1])
  end
  if #of_source > 0 then
    use(1)
    local list = no_list()
    list.records = true
    save_list(list)
    for i = 1, #of_source, 2 do
      redis.call('HSET', META, of_source[i], of_source[i + 1])
    end
    expire_idle(from)
    use(2)
  end
end

-- rename writes the one meta over the other, and hands on what is still to be swept of both lists.
local function rename()
  local of_source, of_target = from.records and records_in(KEYS[1]) or {}, to.records and records_in(KEYS[2]) or {}
  redis.call('RENAME', KEYS[1], KEYS[2])
  keep_records(of_source, of_target)
  for _, range in ipairs(to.stale or {}) do
    from.stale = from.stale or {}
    table.insert(from.stale, range)
  end
  from.records = to.records
  if from.restores or from.gathers then
    redis.call('HDEL', META, 'restores') -- Restore was called for the former name
    from.restores, from.gathers = nil, nil
  end
  save_list(from)
  to = from
end

-- to_plain makes the list the plain list of a restored one. It returns an error if it cannot, or if there is more to be done
-- first.
local function to_plain()
  local key, expires, was_plain = to.restored, from.expires and redis.call('HGET', KEYS[1], 'expires'), from.restored
  local join = from.join
  if is_moving(redis.pcall('EXISTS', key, from.shards .. from.first, PREFIX .. 'never')) then
    return redis.error_reply('TRYAGAIN the list is moving to another node')
  end
  use(1)
  redis.call('HDEL', META, from.restores and 'armed' or 'restores') -- OOM allows it
  from.gathers = from.first < from.last
  local reason = gather(from)
  if reason then
    return reason
  elseif from.first < from.last then
    if not from.restores then
      redis.call('HSET', META, 'restores', string.format('%.0f', clock() + GATHER_MS)) -- pushes are not to undo it
    end
    return redis.error_reply('TRYAGAIN shards are being moved to one')
  end
  redis.call('UNLINK', key)
  redis.call('RENAME', from.shards .. from.first, key)
  for _, range in ipairs(from.stale or {}) do
    to.stale = to.stale or {}
    table.insert(to.stale, range)
  end
  redis.call('HDEL', META, 'stale')
  from.stale, from.own, from.gathers, from.last = nil, nil, nil, from.first - 1
  on_emptied(from)
  use(2)
  keep_expiry(to, expires, was_plain)
  to.armed, to.join = false, join
  save_list(to)
end

-- from_plain makes the plain list of a restored list the only shard of the other, and rings. It returns an error if it cannot.
local function from_plain()
  identify(to)
  must_ring, to.join = false, from.join
  return take_over(to, from.restored, 0)
end

local problem = (to.restored and to_plain or from.restored and from_plain or rename)()
if problem then
  return problem
end
local verdict = complete(to, must_ring)
save_result(verdict)
return verdict
