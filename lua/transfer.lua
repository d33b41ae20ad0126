-- Renames or copies the list, as RENAME and COPY do.
--
-- KEYS  see lists.lua: the list is the first, that of the other name the second
-- ARGV  1 to 4 see lists.lua, 5 'RENAME' or 'COPY', 6 'replace' to take the place of a list of that name, or ''
-- Reply 0 if there is no list to copy, or one of the other name that is not to be replaced; 1 if all is done, 2 if the list
--       of the other name is to be tended, see expire.lua; an error if there is no list to rename
-- Cost  O(shards), three calls each, and for COPY O(elements).
--
-- The other list's shards are left to sweep, and the new ones get ids beyond them. Shards take their lives along. Who waits
-- for the first list goes on waiting: a dummy in its bell is for a pop that will arm it again.
--
-- Safe because every key is read before the first write. That is a RENAME, which a full server lets pass, or a COPY, which
-- it refuses with nothing changed.

local renames = ARGV[5] == 'RENAME'
local how = not renames and 'growing' or nil
use(1)
local SOURCE = PREFIX
local from, problem = open(how)
if problem then
  return problem
end
local done, stale_operation = recall()
if done or stale_operation then
  return tonumber(done) or stale_operation
end
use(2)
local TARGET = PREFIX
local to
to, problem = open(how)
if problem then
  return problem
end
local taken = not is_empty(to)
if is_empty(from) or taken and ARGV[6] ~= 'replace' then
  touch()
  if renames and is_empty(from) then
    return refuse('ERR no such key')
  end
  remember(0)
  return 0
end

-- Look: that all shards are there, and where they go.
local must_ring = to.armed and bell_at_hand()
if taken then
  redis.call('LLEN', TARGET .. to.first)
  redis.call('LLEN', TARGET .. to.last)
  abandon(to)
end
local shift = to.first - from.first
use(1)
for id = from.first, from.last do
  if redis.call('LLEN', SOURCE .. id) == 0 then
    return missing(id)
  end
  redis.call('LLEN', TARGET .. (id + shift))
end
local expiry = redis.call('HMGET', META, 'expires', 'ttl', 'walk')
local life = redis.call('PTTL', META)

-- Write: the shards, then both lists' pointers.
for id = from.first, from.last do
  if renames then
    redis.call('RENAME', SOURCE .. id, TARGET .. (id + shift))
  else
    redis.call('COPY', SOURCE .. id, TARGET .. (id + shift), 'REPLACE')
  end
end
to.last = from.last + shift
if renames then
  vacate(from)
  sweep(from)
end

use(2)
redis.call('HDEL', META, 'expires', 'ttl', 'walk')
redis.call('HSET', META, 'layout', LAYOUT, 'first', to.first, 'last', to.last, 'cap', from.cap, 'armed', 0)
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
if life > 0 and not to.lo then
  redis.call('PEXPIRE', META, life)
end
local verdict = (to.lo or expiry[3]) and 2 or 1
remember(verdict)
return verdict
