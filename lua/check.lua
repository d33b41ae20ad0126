-- Looks for breaches of the list's invariants, a bounded number of shards at a time.
--
-- KEYS  1 meta
-- ARGV  1 the id of the shard to go on from ('' at the beginning), 2… ids that should belong to no shard
-- Reply the id to go on from ('' at the end), then the breaches in words; or an error, one that passes if a shard may be on
--       another node
-- Cost  O(1): at most STEP shards.

local STEP = 1000
local list, problem = open('reading')
if problem then
  return problem
end
local reply = { '' }
local function breach(...)
  reply[#reply + 1] = table.concat({ ... })
end

-- size_of returns the length of a list, or nil and whether the key may be on another node: if not, it holds something else.
local function size_of(key)
  local size = redis.pcall('LLEN', key)
  if type(size) == 'table' then
    return nil, not string.find(size.err, 'WRONGTYPE', 1, true) and is_moving(size)
  elseif size == 0 and is_moving(redis.pcall('EXISTS', META, key)) then
    return nil, true
  end
  return size
end

for i = 2, #ARGV do
  local id = tonumber(ARGV[i])
  local live = id >= list.first and id <= list.last
  local unswept = list.lo and id >= list.lo and id <= list.hi
  if not live and not unswept and redis.call('EXISTS', PREFIX .. id) == 1 then
    breach('shard ', id, ' exists outside ', list.first, '..', list.last)
  end
end

local bell, elsewhere = size_of(BELL)
if not bell and not elsewhere then
  breach('the bell is not a list')
elseif bell and bell > 1 then
  breach('the bell holds ', bell, ' dummies')
elseif bell == 1 and redis.call('PTTL', BELL) < 0 then
  breach('the bell never expires')
end

local life = redis.call('PTTL', META)
if is_empty(list) then
  if list.first ~= list.last + 1 then
    breach('first ', list.first, ' is beyond last ', list.last)
  end
  if life == -1 and not list.lo then
    breach('the meta of an empty list never expires')
  end
  if list.expires then
    breach('an empty list is to expire')
  end
  return reply
end
local expiry = redis.call('HMGET', META, 'ttl', 'walk')
local all_expire = expiry[1] and not expiry[2]
if (expiry[1] or expiry[2]) and not list.expires then
  breach('the shards are to expire, the list is not')
end
if life >= 0 and not all_expire then
  breach('the meta of a list with elements expires')
end
if list.armed then
  breach('a list with elements is armed')
end

local from = math.max(tonumber(ARGV[1]) or list.first, list.first)
local to = math.min(from + STEP - 1, list.last)
for id = from, to do
  local size, moving = size_of(PREFIX .. id)
  local at_end = id == list.first or id == list.last
  if moving then
    return missing(id)
  elseif not size then
    breach('shard ', id, ' is not a list')
  elseif size == 0 then
    breach('shard ', id, ' is missing')
  elseif size > list.cap or (size < list.cap and not at_end) then
    breach('shard ', id, ' holds ', size, ' elements, the capacity is ', list.cap)
  end
  local shard_life = redis.call('PTTL', PREFIX .. id)
  if shard_life >= 0 and not list.expires then
    breach('shard ', id, ' expires, the list does not')
  elseif shard_life >= 0 and list.now + shard_life <= math.min(list.expires, 2 ^ 53) then
    breach('shard ', id, ' expires before the list')
  elseif shard_life == -1 and all_expire then
    breach('shard ', id, ' never expires, the list does')
  elseif life >= 0 and shard_life > life then
    breach('shard ', id, ' expires after meta')
  end
end
if to < list.last then
  reply[1] = tostring(to + 1)
end
return reply
