-- Sets or removes the time at which the list expires, as EXPIRE and PERSIST do. Each call handles a bounded number of shards.
--
-- requires: shared/session shared/short_key shared/sweep shared/discard shared/shards shared/take_in shared/of_key
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 and 5 when: 'in' and milliseconds, 'at' and a Unix time in milliseconds, 'never', or
--       'continue' to finish earlier work without setting a time; 6 those of the words NX, XX, GT and LT that apply;
--       7 the grace in milliseconds; then the words of the command for the key if there is no list, if any
-- Reply 0 if the condition is not met or there is no list; 1 if all is done; 2 if the time is set and 'continue' must follow
--       until all is done; -1 if nothing is set yet and the caller must repeat the operation;
--       or 'KEY' and the reply of the command, which is not remembered
-- Flags allow-oom
-- Cost  O(1): two calls a shard, for STEP shards at most, and a sweep.
--
-- The field expires in meta decides, and changes for all clients at once. The shards' TTLs must end later, by the grace at
-- least. If they already do, the script sets expires first and then, if need be, updates the shards. If not, it updates the
-- shards first. So a client that dies in between leaves a list that expires at its old time or its new one, and no shard goes
-- before. TTLs end so much later that a time which is postponed again and again seldom requires new ones.
--
-- Safe because it reads every key before the first write, PEXPIRE or HDEL or PERSIST or DEL, which OOM allows.

local STEP = 100
local FAR = 2 ^ 53 -- later than any list needs to expire; numbers up to here are exact
local NEVER = math.huge

local done, failure = replay()
if done or failure then
  return tonumber(done) or failure
end
local short = ARGV[6] == '' and (ARGV[4] == 'in' or ARGV[4] == 'at') and short_key()
if short then
  local reply = redis.call(ARGV[4] == 'in' and 'PEXPIRE' or 'PEXPIREAT', short, ARGV[5])
  save_result(reply)
  return reply
end
local list, problem = open(nil, true)
if problem then
  return problem
end
local others = is_empty(list) and of_key(8, true)
if others then
  return others
end
local how, condition, grace = ARGV[4], ARGV[6], tonumber(ARGV[7])
local continues = how == 'continue'
local now = list.now or clock()
local current = list.expires or NEVER
local at_plain = list.restored and not is_empty(list) and list.restored -- the key that expires by itself
local left = at_plain and redis.call('PTTL', at_plain) or -1
if left >= 0 then
  current = now + left
end
local wanted = continues and current or how == 'never' and NEVER or tonumber(ARGV[5])
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
-- unfinished sweeps, and tells whether sweeping must continue. While the slot moves, a sweep may stand still, and later
-- operations continue it.
local function unfinished()
  local goes_on = sweep(list)
  return list.stale and (goes_on or not continues)
end
if refused then
  touch()
  local verdict = unfinished() and continues and 2 or 0
  save_result(0)
  return verdict
end
if wanted <= now and not continues then
  problem = discard(list)
  if problem then
    return problem
  end
  local verdict = list.stale and 2 or 1
  save_result(verdict)
  return verdict
end

if at_plain then
  local reply = 1
  if how == 'never' then
    reply = redis.call('PERSIST', at_plain)
  elseif not continues then
    reply = redis.call(how == 'in' and 'PEXPIRE' or 'PEXPIREAT', at_plain, ARGV[5])
  end
  touch()
  if unfinished() and reply == 1 then
    reply = 2
  end
  save_result(reply)
  return reply
end

local ttl, cursor = tonumber(list.ttl or nil), tonumber(list.more or nil)
local near = math.min(wanted, FAR)
local slack = near - now + 2 * grace
local target = wanted < NEVER and near + slack or nil

-- covers tells whether shards with this ttl outlive the list. suits tells whether they also do not do so for far too long.
local function covers()
  return not ttl or near + grace <= ttl and wanted < NEVER
end
local function suits()
  return wanted == NEVER or ttl and covers() and ttl <= near + 4 * slack
end

-- start sets a new ttl, and the TTL cursor to the first shard.
local function start()
  ttl, cursor = target, list.first
  redis.call('PERSIST', META)
  redis.call('HDEL', META, 'ttl')
  list.more = true
  save_list(list)
  if ttl then
    redis.call('HSET', META, 'ttl', ttl)
  end
  redis.call('HSET', META, 'walk', cursor)
end

-- Read: whether the time may be set now, and the shards to update.
local may_set = wanted <= current or not cursor and covers()
local must_start = not suits()
if continues then
  must_start = false
elseif not may_set then
  must_start = not cursor or not covers() -- reuse a suitable cursor: otherwise two callers restart each other's forever
end
local from = must_start and list.first or cursor and math.max(cursor, list.first)
local stop = from
while from and stop <= list.last and stop < from + STEP do
  if is_away(list.shards .. stop) then
    if stop == from then
      return missing(list, stop)
    end
    break
  end
  stop = stop + 1
end

-- Write: the shards, then meta.
touch()
if must_start then
  start()
end
if from then
  for id = from, stop - 1 do
    set_ttl(list, id, ttl)
  end
  redis.call('HDEL', META, 'walk')
  cursor = stop <= list.last and stop or nil
  if cursor then
    redis.call('HSET', META, 'walk', cursor)
  end
end
may_set = may_set or not cursor
if may_set and not continues then
  if wanted == NEVER then
    redis.call('HDEL', META, 'expires')
  else
    if not list.expires then
      list.more = true
      save_list(list)
    end
    redis.call('HSET', META, 'expires', how == 'at' and ARGV[5] or string.format('%.0f', wanted))
  end
  if not cursor and not suits() then
    start() -- the cursor that has just reached the end was another caller's
  end
end
local verdict = (unfinished() or cursor) and 2 or 1
if ttl and not cursor and not list.stale then
  redis.call('PEXPIREAT', META, ttl + grace)
end
if not may_set then
  verdict = -1
end
save_result(verdict)
return verdict
