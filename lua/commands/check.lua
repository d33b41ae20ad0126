-- Checks the invariants of the list, but for stray shards. Each call handles a bounded number of shards.
--
-- requires: shared/list shared/bell shared/size
--
-- KEYS  1 meta
-- ARGV  1 the id of the shard to start at, '' in the first call
-- Reply the id to continue at ('' at the end), then the breaches in words. If a shard may be on another node, the reply is an
--       error that the caller retries
-- Flags allow-oom
-- Cost  O(1): at most STEP shards.

local STEP = 250
local list, problem = open('reading')
if problem then
  return problem
end
local reply = { '' }
local function breach(...)
  reply[#reply + 1] = table.concat({ ... })
end

local bell, bell_away = size_of(BELL)
if not bell and not bell_away then
  breach('the bell is not a list')
elseif bell and bell > 1 then
  breach('the bell holds ', bell, ' dummies')
elseif bell == 1 and redis.call('PTTL', BELL) < 0 then
  breach('the bell never expires')
end

if list.restored or type(list.shards) == 'table' then
  return reply -- the list is a plain one
end

local meta_ttl = redis.call('PTTL', META)
if string.match(redis.call('HGET', META, 'layout') or '', POINTERS) == '' and #redis.call('HGETALL', META) > 2 then
  breach('meta has fields that its layout does not announce')
end
if is_empty(list) then
  if list.first ~= list.last + 1 then
    breach('first ', list.first, ' is beyond last ', list.last)
  end
  if meta_ttl == -1 and not list.stale and not list.restores then
    breach('the meta of an empty list never expires')
  end
  if list.expires then
    breach('an empty list is to expire')
  end
  return reply
end
local newcomers = PLAIN and list.join == 0 and not rung_by(PLAIN) and redis.pcall('LLEN', PLAIN)
if type(newcomers) == 'number' and newcomers > 0 then
  breach('the plain key holds ', newcomers, ' elements, and nobody watches it')
end
local expiry = redis.call('HMGET', META, 'ttl', 'walk')
local all_expire = expiry[1] and not expiry[2]
if (expiry[1] or expiry[2]) and not list.expires then
  breach('the shards are to expire, the list is not')
end
if meta_ttl >= 0 and not all_expire then
  breach('the meta of a list with elements expires')
end
if list.armed then
  breach('a list with elements is armed')
end

local from = math.max(tonumber(ARGV[1]) or list.first, list.first)
local to = math.min(from + STEP - 1, list.last)
for id = from, to do
  local size, away = size_of(list.shards .. id)
  local cap = cap_at(list, id)
  local at_end = id == list.first or id == list.last
  if away then
    return missing(list, id)
  elseif not size then
    breach('shard ', id, ' is not a list')
  elseif size == 0 then
    breach('shard ', id, ' is missing')
  elseif size ~= cap and not at_end and (id ~= list.part or size > cap) then
    breach('shard ', id, ' holds ', size, ' elements, the capacity is ', cap)
  end
  local left = redis.call('PTTL', list.shards .. id)
  if left >= 0 and not list.expires then
    breach('shard ', id, ' expires, the list does not')
  elseif left >= 0 and list.now + left <= math.min(list.expires, 2 ^ 53) then
    breach('shard ', id, ' expires before the list')
  elseif left == -1 and all_expire then
    breach('shard ', id, ' never expires, the list does')
  elseif meta_ttl >= 0 and left > meta_ttl then
    breach('shard ', id, ' expires after meta')
  end
end
if to < list.last then
  reply[1] = tostring(to + 1)
end
return reply
