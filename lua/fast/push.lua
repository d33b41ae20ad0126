-- Pushes values into an end shard that has room for them, or onto the plain key of a short list. KEYS and ARGV are those of
-- commands/push.lua.
--
-- requires: fast/begin shared/pieces shared/capacities shared/publish

local VALUE_COUNT

-- In each call:

VALUE_COUNT = #ARGV - 5
FAST = FAST and VALUE_COUNT > 0 and VALUE_COUNT < UNPACK_MAX and (VALUE_COUNT == 1 or #ARGV[6] * VALUE_COUNT < PIECE)
if FAST and (SHORT and ARGV[5] ~= '' or HAS_ELEMENTS and JOIN > 0) then
  local others, size, cap, bell = 0, 0, CAP
  if SHORT then
    size, cap = redis.pcall('LLEN', NEAR), ARGV[5] + 0
    if cap <= 0 then -- by size, as shared/shards.lua has it
      cap = (cap < 0 and 4 * SHARD_BYTES or SHARD_BYTES) / #ARGV[6]
      cap = cap < LEAST and LEAST or cap > MOST and MOST or cap
    end
    -- All keys that exist are known: there is no meta of another kind. Only a list may be at the plain key.
    FAST = type(size) == 'number' and OTHERS == (WRITTEN and 1 or 0) + (size > 0 and 1 or 0)
    if FAST and ARMED then
      bell = PREFIX .. 'bell'
      FAST = size == 0 and redis.pcall('EXISTS', META, bell) == 1
    end
  elseif SPAN > 0 then
    others = redis.call('LLEN', SHARDS .. (LEFT and LAST or FIRST))
    FAST = others > 0
    others = others + (SPAN - 1) * CAP
  end
  if FAST and not SHORT and ARGV[5] ~= '' and ARGV[5] + 0 <= 0 then
    FAST = not is_crowded(CAP, (#ARGV[6] + #ARGV[#ARGV]) / 2, ARGV[5] + 0)
  end
  if FAST and not SHORT and VALUE_COUNT > 1 then
    size = redis.call('LLEN', NEAR)
    FAST = size > 0
  end
  if FAST and size + VALUE_COUNT <= cap then
    if VALUE_COUNT > 1 then
      size = redis.call(LEFT and 'LPUSH' or 'RPUSH', NEAR, unpack(ARGV, 6))
    elseif SHORT then
      size = redis.call(LEFT and 'LPUSH' or 'RPUSH', NEAR, ARGV[6])
    else
      size = redis.call(LEFT and 'LPUSHX' or 'RPUSHX', NEAR, ARGV[6]) -- this saves the LLEN
    end
    if size > cap then
      redis.call(LEFT and 'LPOP' or 'RPOP', NEAR)
    elseif size > 0 then
      if SHORT and WRITTEN then
        redis.call('DEL', META)
      end
      if bell then -- as shared/ring.lua, whose function is not defined yet
        redis.call('RPUSH', bell, '1')
        redis.call('PEXPIRE', bell, IDLE_MS)
        publish(bell)
      end
      if KEEPS_TTL then -- as shared/record.lua, whose function is not defined yet
        redis.call('SET', RECORD, ARGV[2] .. ':' .. others + size, 'KEEPTTL')
      elseif RECORD then
        redis.call('SET', RECORD, ARGV[2] .. ':' .. others + size, 'PX', LIFE)
      end
      return others + size
    end
  end
end
