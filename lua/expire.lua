-- Sets the time at which the list expires, or removes it, as EXPIRE and PERSIST do, for a bounded number of shards at a time.
--
-- KEYS  1 meta
-- ARGV  1 to 3 see lane.lua, 4 and 5 when: 'in' so many milliseconds, 'at' a Unix time in milliseconds, 'never', or 'tend':
--       no other time, only go on with what is unfinished; 6 those of the words NX, XX, GT and LT that apply;
--       7 the grace in milliseconds
-- Reply 0 if the condition is not met or there is no list; 1 if all is done; 2 if the time is set, and it is to be tended
--       until all is done; -1 if nothing is set yet, and the operation is to be repeated
-- Cost  O(1): two calls a shard, for STEP shards at most, and a sweep.
--
-- What counts is expires in meta, which changes at once for all. The shards' own lives must end later, by the grace at least.
-- Where they do, expires is set first and the shards, if need be, are walked after it. Where they do not, they are walked
-- before. So whoever dies half-way leaves a list that expires at its old time or its new one, and loses no shard before.
-- The lives are set to end so late that a list whose time is put off again and again is seldom walked.
--
-- Safe because every key is read before the first write, HDEL or PERSIST or DEL, which a full server lets pass.

local STEP = 100
local FAR = 2 ^ 53 -- farther off than anything needs to expire, and numbers are still exact
local NEVER = math.huge

local list, problem = open()
if problem then
  return problem
end
local done, stale_operation = recall()
if done or stale_operation then
  return tonumber(done) or stale_operation
end
local how, condition, grace = ARGV[4], ARGV[6], tonumber(ARGV[7])
local tends = how == 'tend'
local now = list.now or clock()
local current = list.expires or NEVER
local wanted = tends and current or how == 'never' and NEVER or tonumber(ARGV[5])
if how == 'in' then
  wanted = now + wanted
end

local function only(word)
  return string.find(condition, word, 1, true)
end
local refused = is_empty(list)
  or only('NX') and current < NEVER
  or only('XX') and current == NEVER
  or only('GT') and wanted <= current
  or only('LT') and wanted >= current
if refused then
  touch()
  sweep(list)
  remember(0)
  return tends and list.lo and 2 or 0
end
if wanted <= now and not tends then
  discard(list)
  local verdict = list.lo and 2 or 1
  remember(verdict)
  return verdict
end

local expiry = redis.call('HMGET', META, 'ttl', 'walk')
local ttl, walk = tonumber(expiry[1]), tonumber(expiry[2])
local near = math.min(wanted, FAR)
local slack = near - now + 2 * grace
local target = wanted < NEVER and near + slack or nil

-- covers tells whether shards with the ttl outlive the list, suits whether they do not do so for much too long.
local function covers()
  return not ttl or near + grace <= ttl and wanted < NEVER
end
local function suits()
  return wanted == NEVER or ttl and covers() and ttl <= near + 4 * slack
end

-- aim begins a walk.
local function aim()
  ttl, walk = target, list.first
  redis.call('PERSIST', META)
  redis.call('HDEL', META, 'ttl')
  if ttl then
    redis.call('HSET', META, 'ttl', ttl)
  end
  redis.call('HSET', META, 'walk', walk)
end

-- Look: what may be set now, and the shards to walk.
local may_set = wanted <= current or not walk and covers()
local must_aim = not suits()
if tends then
  must_aim = false
elseif not may_set then
  must_aim = not walk or not covers() -- others' walks are gone on with if they do, lest two undo each other's for ever
end
local from = must_aim and list.first or walk and math.max(walk, list.first)
local stop = from
while from and stop <= list.last and stop < from + STEP do
  if is_moving(redis.pcall('EXISTS', META, PREFIX .. stop)) then
    if stop == from then
      return missing(stop)
    end
    break
  end
  stop = stop + 1
end

-- Write: the shards, then what meta says.
if must_aim then
  aim()
end
if from then
  for id = from, stop - 1 do
    keep(id, ttl)
  end
  redis.call('HDEL', META, 'walk')
  walk = stop <= list.last and stop or nil
  if walk then
    redis.call('HSET', META, 'walk', walk)
  end
end
may_set = may_set or not walk
if may_set and not tends then
  redis.call('HDEL', META, 'expires')
  if wanted < NEVER then
    redis.call('HSET', META, 'expires', how == 'at' and ARGV[5] or string.format('%.0f', wanted))
  end
  if not walk and not suits() then
    aim() -- the walk that is over was another's
  end
end
touch() -- if nothing was to be written
sweep(list)
if ttl and not walk and not list.lo then
  redis.call('PEXPIREAT', META, ttl + grace)
end
local verdict = (walk or list.lo) and 2 or 1
if not may_set then
  verdict = -1
end
remember(verdict)
return verdict
