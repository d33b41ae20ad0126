-- Renames or copies the list, as RENAME and COPY do.
--
-- requires: shared/session shared/identity shared/sweep shared/lists shared/take_in shared/gather shared/emptied shared/shrink
--
-- KEYS  see shared/lists.lua: the list is the first, the list of the other name the second
-- ARGV  1 to 4 see shared/lists.lua, 5 'RENAME' or 'COPY', 6 'replace' to replace a list of that name, or ''
--       Where there is no list at either of the plain keys, if there are such keys, Redis's own command is carried out on them.
-- Reply 0 if there is no list to copy, or one of the other name that must stay; 1 if all is done; 2 if expire.lua is to
--       continue with the list of the other name. It is an error if there is no list to rename
-- Cost  RENAME O(1): it moves meta, which says where the shards are. COPY O(elements), and three calls a shard. The sweep is
--       bounded. A list of several shards that is renamed to a restored one is gathered first, in bounded steps
--
-- The shards of the replaced list are left to a sweep. Shards keep their TTLs, and so does meta. Consumers that wait for the
-- renamed list go on waiting: a dummy in its bell is for a pop that arms it again.
--
-- A list that stays at its plain key gets what the other has there, and gives what it has. To be renamed over a long list, it
-- becomes one. It cannot get a long list.
--
-- That a list has been restored belongs to the name, and stays: see commands/restore.lua. What goes there becomes the plain
-- key, and what comes from there is a long shard.
--
-- Safe because it reads every key before the first write. That is a RENAME, which OOM allows, or a COPY, which OOM refuses with
-- nothing changed.

local renames = ARGV[5] == 'RENAME'
local how = not renames and 'growing' or nil
local replaces = ARGV[6] == 'replace'
local plain = {} -- the plain keys
local stays = {} -- whether the list stays there, see shared/keys.lua
for i, word in ipairs(KEYS.words) do
  plain[i], stays[i] = string.sub(word, 2), string.byte(word, 1) == 46 -- '.'
end
local GATHER_MS = 1000 -- longer than a caller takes for its next step

-- take_plain makes the plain list at a plain key a part of the list. It returns the error if it cannot.
local function take_plain(list, key)
  if list.restored and is_empty(list) and is_away(list.restored) then
    return redis.error_reply('TRYAGAIN the list is moving')
  end
  local size = not list.restored and not rung_by(key) and redis.pcall('LLEN', key)
  if type(size) ~= 'number' or size == 0 then
    return nil
  end
  local problem = not renames and no_memory()
  if not problem and is_empty(list) then
    problem = take_over(list, key, 0)
  elseif not problem then
    problem = take_in(list, key, size, list.join > 0 and list.join or pushed_at(false))
    if not problem and redis.call('LLEN', key) > 0 then
      problem = redis.error_reply('TRYAGAIN the key is moving to another node')
    end
  end
  return problem or nil
end

-- at_plain_keys returns the reply, or the error, if Redis or a plain key decides what becomes of the command.
local function at_plain_keys(from, to)
  local source, target = is_empty(from), is_empty(to)
  if source and target then
    if renames and not replaces and redis.call('EXISTS', plain[1], plain[2]) == 2 then
      return 0
    end
    local words = { renames and 'RENAME' or 'COPY', plain[1], plain[2] }
    words[4] = not renames and replaces and 'REPLACE' or nil
    local reply = redis.pcall(unpack(words))
    return type(reply) == 'table' and not reply.err and 1 or reply
  end
  PLAIN = source and plain[1] or plain[2]
  if source == target or redis.call('EXISTS', PLAIN) == 0 then
    return nil
  end
  if not replaces then
    return 0
  end
  local _, reason = with_plain(no_list(), how)
  return reason
end

use(1)
PLAIN = nil -- what is there matters only if a list is empty
local done, failure = replay()
if done or failure then
  return tonumber(done) or failure
end
local from, problem = open(how, true)
if problem then
  return problem
end
use(2)
PLAIN = nil
local to
to, problem = open(how, true)
if problem then
  return problem
end
if not is_empty(from) or not is_empty(to) or from.stale or to.stale then
  use(1)
  problem = (not stays[1] or renames and replaces and not is_empty(to)) and take_plain(from, plain[1])
  use(2)
  problem = problem or not stays[2] and take_plain(to, plain[2])
  PLAIN = nil
  if problem then
    return problem
  end
end
local verdict = at_plain_keys(from, to)
if verdict then
  if verdict == 1 and is_empty(from) and to.armed and bell_is_here() then
    to.armed = false
    save_list(to)
    ring()
  end
  if type(verdict) == 'number' then
    save_result(verdict)
  elseif verdict.err == 'ERR no such key' then
    return save_error(verdict.err)
  end
  return verdict
end
if stays[2] and not is_empty(from) or stays[1] and is_empty(from) and replaces and redis.call('EXISTS', plain[1]) == 1 then
  return redis.error_reply('STAYSPLAIN ')
end
local taken = not is_empty(to)
if is_empty(from) or taken and not replaces then
  touch()
  if renames and is_empty(from) then
    return save_error('ERR no such key')
  end
  save_result(0)
  return 0
end

-- Read: the list of the other name.
local must_ring = to.armed and bell_is_here()
if taken and not to.restored then
  redis.call('LLEN', to.shards .. to.first)
  redis.call('LLEN', to.shards .. to.last)
  detach(to)
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

-- copy makes new shards, with ids beyond those that are still to be swept, and then meta. It returns an error if it cannot.
local function copy()
  identify(to)
  local shift = to.first - from.first
  for id = from.first, from.last do
    local size
    size, problem = shard_length(from, id)
    if not size then
      return problem
    end
    redis.call('LLEN', to.shards .. (id + shift))
  end
  local expiry = redis.call('HMGET', KEYS[1], 'expires', 'ttl', 'walk')
  local meta_ttl = redis.call('PTTL', KEYS[1])
  for id = from.first, from.last do
    redis.call('COPY', from.shards .. id, to.shards .. (id + shift), 'REPLACE')
  end
  to.last = from.last + shift
  redis.call('HDEL', META, 'expires', 'ttl', 'walk')
  to.cap, to.armed, to.join, to.more = from.cap, false, from.join, expiry[1] or expiry[2] or expiry[3]
  to.part = from.part and from.part + shift
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

-- from_plain makes the plain list of a restored list the only shard of the other, and rings. It returns an error if it cannot.
local function from_plain()
  identify(to)
  must_ring, to.join = false, from.join
  if renames then
    return take_over(to, from.restored, 0)
  end
  local shard = to.shards .. to.first
  if is_moving(redis.pcall('EXISTS', from.restored, shard)) then
    return redis.error_reply('TRYAGAIN the list is moving to another node')
  end
  redis.call('COPY', from.restored, shard, 'REPLACE')
  return take_over(to, shard, 0)
end

-- copy_shards appends all shards but the first to a key.
local function copy_shards(key)
  for id = from.first + 1, from.last do
    for start = 0, redis.call('LLEN', from.shards .. id) - 1, MOVE_STEP do
      local elements = redis.call('LRANGE', from.shards .. id, start, start + MOVE_STEP - 1)
      push_values('RPUSH', key, elements, 1, #elements)
    end
  end
end

-- to_plain makes the list the plain list of a restored one. It returns an error if it cannot, or if there is more to be done
-- first.
local function to_plain()
  local key, expires = to.restored, from.expires and redis.call('HGET', KEYS[1], 'expires')
  local join = from.join
  if is_moving(redis.pcall('EXISTS', key, from.shards .. from.first, PREFIX .. 'never')) then
    return redis.error_reply('TRYAGAIN the list is moving to another node')
  end
  if not renames then
    for id = from.first, from.last do
      local size, reason = shard_length(from, id)
      if not size then
        return reason
      end
    end
    redis.call('COPY', from.shards .. from.first, key, 'REPLACE')
    copy_shards(key)
  else
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
  end
  if expires then
    redis.call('PEXPIREAT', key, expires)
  elseif not from.restored then
    redis.call('PERSIST', key)
  end
  to.armed, to.join = false, join
  save_list(to)
end

local transfer = renames and rename or copy
if to.restored or from.restored then
  transfer = to.restored and to_plain or from_plain
end
problem = transfer()
if problem then
  return problem
end
if must_ring then
  ring()
end
sweep(to)
if to.stale then
  redis.call('PERSIST', META) -- until all is swept
end
verdict = (to.stale or redis.call('HGET', META, 'walk')) and 2 or 1
PLAIN = plain[2]
shrink(to)
if not renames then
  use(1)
  shrink(from)
end
save_result(verdict)
return verdict
