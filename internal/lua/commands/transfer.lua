-- Renames or copies the list, as RENAME and COPY do.
--
-- requires: shared/session shared/sweep shared/emptied shared/lists
--
-- KEYS  see shared/lists.lua: the list is the first, the list of the other name the second
-- ARGV  1 to 4 see shared/lists.lua, 5 'RENAME' or 'COPY', 6 'replace' to replace a list of that name, or ''
--       Where there is no list at either of the plain keys, if there are such keys, Redis's own command is carried out on them.
-- Reply 0 if there is no list to copy, or one of the other name that must stay; 1 if all is done; 2 if expire.lua is to
--       continue with the list of the other name. It is an error if there is no list to rename
-- Cost  O(shards), three calls each, and for COPY O(elements).
--
-- The shards of the replaced list are left to a sweep, and the new ones get ids beyond them. Shards keep their TTLs. Consumers
-- that wait for the renamed list go on waiting: a dummy in its bell is for a pop that arms it again.
--
-- Safe because it reads every key before the first write. That is a RENAME, which OOM allows, or a COPY, which OOM refuses with
-- nothing changed.

local renames = ARGV[5] == 'RENAME'
local how = not renames and 'growing' or nil
local replaces = ARGV[6] == 'replace'
local plain = { KEYS[LISTS + 1], KEYS[LISTS + 2] }

-- at_plain_keys returns the reply, or the error, if Redis or a plain key decides what becomes of the command.
local function at_plain_keys(from, to)
  local source, target = is_empty(from), is_empty(to)
  if source and target then
    local words = { renames and (replaces and 'RENAME' or 'RENAMENX') or 'COPY', plain[1], plain[2] }
    words[4] = not renames and replaces and 'REPLACE' or nil
    local reply = redis.pcall(unpack(words))
    return type(reply) == 'table' and not reply.err and 1 or reply
  end
  PLAIN = source and plain[1] or plain[2]
  if source == target or redis.call('EXISTS', PLAIN) == 0 then
    return nil
  end
  return replaces and plain_problem() or 0
end

use(1)
PLAIN = nil -- what is there matters only if a list is empty
local SOURCE = PREFIX
local done, failure = replay()
if done or failure then
  return tonumber(done) or failure
end
local from, problem = open(how)
if problem then
  return problem
end
use(2)
PLAIN = nil
local TARGET = PREFIX
local to
to, problem = open(how)
if problem then
  return problem
end
local verdict = plain[1] and at_plain_keys(from, to)
if verdict then
  if type(verdict) == 'number' then
    save_result(verdict)
  elseif verdict.err == 'ERR no such key' then
    return save_error(verdict.err)
  end
  return verdict
end
local taken = not is_empty(to)
if is_empty(from) or taken and ARGV[6] ~= 'replace' then
  touch()
  if renames and is_empty(from) then
    return save_error('ERR no such key')
  end
  save_result(0)
  return 0
end

-- Read: the shards, the keys that they move to, and the times.
local must_ring = to.armed and bell_is_here()
if taken then
  redis.call('LLEN', TARGET .. to.first)
  redis.call('LLEN', TARGET .. to.last)
  detach(to)
end
local shift = to.first - from.first
use(1)
for id = from.first, from.last do
  local size
  size, problem = shard_length(id)
  if not size then
    return problem
  end
  redis.call('LLEN', TARGET .. (id + shift))
end
local expiry = redis.call('HMGET', META, 'expires', 'ttl', 'walk')
local meta_ttl = redis.call('PTTL', META)

-- Write: the shards, then the pointers of both lists.
for id = from.first, from.last do
  if renames then
    redis.call('RENAME', SOURCE .. id, TARGET .. (id + shift))
  else
    redis.call('COPY', SOURCE .. id, TARGET .. (id + shift), 'REPLACE')
  end
end
to.last = from.last + shift
if renames then
  on_emptied(from)
  sweep(from)
end

use(2)
redis.call('HDEL', META, 'expires', 'ttl', 'walk')
save_pointers(to, 'cap', from.cap, 'armed', 0)
if to.lo then
  redis.call('HSET', META, 'lo', to.lo, 'hi', to.hi)
end
for i, field in ipairs({ 'expires', 'ttl', 'walk' }) do
  if expiry[i] then
    redis.call('HSET', META, field, field == 'walk' and expiry[i] + shift or expiry[i])
  end
end
redis.call('PERSIST', META)
if must_ring then
  ring()
end
sweep(to)
if meta_ttl > 0 and not to.lo then
  redis.call('PEXPIRE', META, meta_ttl)
end
verdict = (to.lo or expiry[3]) and 2 or 1
save_result(verdict)
return verdict
