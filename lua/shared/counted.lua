-- Calls of limiters that count once, however often they are sent.
--
-- The dedup record of a session is a field of META, as shared/session.lua has it of a list whose slot moves: one command reads
-- the record and the state, and one writes both. META stays for as long as a record in it may be needed. It has these fields:
--   op:@<id>  the record of a session: the Unix time in milliseconds until which it may be needed, ':', the sequence number,
--             ':', and the result
--   records   the time until which META stays, which is longer than needed, so that few calls have to set its TTL
--   swept     the cursor of HSCAN up to which old records have been dropped: the first call of a session goes on
--
-- requires: shared/limit shared/operation shared/moving

local FEW, SWEEP = 32, 100 -- fields: so many may stay, and so many are looked at, about

local KEPT -- the field records
local IS_FIRST -- whether this call is the first of its session

-- read_state returns the values of some fields of META in an array, from the third on; or nil and the reply: the call has been
-- done, or must not be done.
local function read_state(...)
  local state = redis.call('HMGET', META, 'records', FIELD, ...)
  KEPT, IS_FIRST = state[1] and tonumber(state[1]), not state[2]
  local sequence, result = string.match(state[2] or '', '^%d+:(%d+):(.*)$')
  if not sequence then
    if not KEPT and is_away(PREFIX .. FIELD) and redis.call('EXISTS', META) == 0 then
      return nil, redis.error_reply('TRYAGAIN the limiter is moving to another node')
    end
    return state
  end
  sequence = tonumber(sequence)
  if sequence < SEQUENCE then
    return state
  elseif sequence > SEQUENCE then
    return nil, redis.error_reply('STALE operation ' .. ARGV[2] .. ' of a session that is at ' .. sequence)
  end
  return nil, string.byte(result) == 33 and redis.error_reply(string.sub(result, 2)) or result -- '!'
end

-- write_nothing is a first write that changes nothing and that OOM allows, so that what follows is allowed, too.
local function write_nothing()
  redis.call('HDEL', META, 'never')
end

-- drop_records drops some of the records that are not needed.
local function drop_records(ms)
  local from = redis.call('HGET', META, 'swept') or '0'
  local scanned = redis.call('HSCAN', META, from, 'MATCH', 'op:*', 'COUNT', SWEEP)
  local found = scanned[2]
  for i = 1, #found, 2 do
    if tonumber(string.match(found[i + 1], '^%d+')) < ms then
      redis.call('HDEL', META, found[i])
    end
  end
  if scanned[1] ~= from then
    redis.call('HSET', META, 'swept', scanned[1])
  end
end

-- save_state writes the result of the call and, behind it, fields of META with their values, in one command. META stays until a
-- time, and as long as the record. It returns the result.
local function save_state(result, time, now, ...)
  local ms = math.floor(now / 1000)
  local needed = ms + tonumber(LIFE)
  local record = whole(needed) .. ':' .. ARGV[2] .. ':' .. result
  needed = math.max(needed, math.ceil(time / 1000) + SLACK_MS)
  if KEPT and KEPT >= needed then
    redis.call('HSET', META, FIELD, record, ...)
  else
    redis.call('HSET', META, FIELD, record, 'records', whole(needed + LIFE), ...)
    redis.call('PEXPIRE', META, whole(needed + LIFE - ms))
  end
  if KEPT and IS_FIRST and redis.call('HLEN', META) > FEW then
    drop_records(ms)
  end
  return result
end

-- In each call:

KEPT, IS_FIRST = nil, false
