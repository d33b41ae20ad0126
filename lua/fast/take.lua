-- Leases jobs that wait, out of a shard that has more than are wanted, or out of a short list. Where no limit is set, no lease
-- has ended and no job is due, nobody else has to look. KEYS and ARGV are those of commands/queue_take.lua.
--
-- requires: fast/begin shared/envelope shared/record

-- A sorted set of few members is a listpack, which is searched from its start for each. It is none any more once it had a
-- member that is too long, which pays off when many jobs are leased.
local MANY, WIDE = 8, '-----------------------------------------------------------------'

-- take_waiting leases them and returns the reply, or nil if this is not the common case.
local function take_waiting()
  local left, near, count = LEFT, NEAR, tonumber(ARGV[5])
  local size = count > 0 and redis.pcall('LLEN', near)
  if type(size) ~= 'number' or size < count then
    return nil
  elseif not SHORT and (size == count or JOIN <= 2 or SPAN == 0 and size - count <= CAP / 2) then
    return nil
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local moment = string.format('%.0f', now)
  local state = redis.pcall('HMGET', QUEUE, 'paused', 'guard')
  local mine = state[2] and string.match(state[2], ' (.*)$') == ARGV[8]
  if state.err or state[1] or mine or redis.pcall('ZCOUNT', TIMES, '-' .. moment, moment) ~= 0
    or type(redis.pcall('HGET', JOBS, '')) == 'table' or type(redis.pcall('EXISTS', META, QUEUE, TIMES, JOBS)) ~= 'number'
    or count * longest_of(near, left, count) > TAKE_BYTES then
    return nil
  end
  local lease, ids, fields, scores = string.sub(ARGV[13], 1, 6), {}, {}, {}
  local ends = string.format('-%.0f', now + ARGV[9])
  local envelopes = redis.call(left and 'LPOP' or 'RPOP', near, count)
  for i = 1, count do
    local id, envelope = waited(envelopes[i], ARGV[13], i - 1)
    ids[i], envelopes[i] = id, envelope
    fields[2 * i - 1], fields[2 * i] = id, envelope
    scores[2 * i - 1], scores[2 * i] = ends, id .. lease
  end
  redis.call('HSET', JOBS, unpack(fields))
  if count >= MANY then
    redis.call('ZADD', TIMES, 0, WIDE)
  end
  redis.call('ZADD', TIMES, unpack(scores))
  if count >= MANY then
    redis.call('ZREM', TIMES, WIDE) -- not before: without members there is no sorted set
  end
  save_record('-1=' .. lease .. table.concat(ids))
  return { -1, 0, lease, unpack(envelopes) }
end

-- In each call:

if (HAS_ELEMENTS or SHORT and not ARMED) and RECORD and ARGV[6] ~= 'woken' and ARGV[10] == '0' and ARGV[11] == '0' then
  local reply = take_waiting()
  if reply then
    return reply
  end
end
