-- Pushes values into an end shard that has room for them. KEYS and ARGV are those of commands/push.lua.
--
-- requires: fast/begin shared/pieces

local VALUE_COUNT

-- In each call:

VALUE_COUNT = #ARGV - 5
FAST = FAST and VALUE_COUNT > 0 and VALUE_COUNT < UNPACK_MAX and (VALUE_COUNT == 1 or #ARGV[6] * VALUE_COUNT < PIECE)
if FAST and HAS_ELEMENTS and (JOIN > 0 or not WATCHES) then
  local length = 0
  if SPAN > 0 then
    length = redis.call('LLEN', SHARDS .. (LEFT and LAST or FIRST))
    FAST = length > 0
    length = length + (SPAN - 1) * CAP
  end
  if FAST and VALUE_COUNT > 1 then
    local size = redis.call('LLEN', NEAR)
    FAST = size > 0 and size + VALUE_COUNT <= CAP
  end
  if FAST then
    local PUSHX, size = LEFT and 'LPUSHX' or 'RPUSHX'
    if VALUE_COUNT == 1 then
      size = redis.call(PUSHX, NEAR, ARGV[6]) -- this saves the LLEN
    else
      size = redis.call(PUSHX, NEAR, unpack(ARGV, 6))
    end
    if size > CAP then
      redis.call(LEFT and 'LPOP' or 'RPOP', NEAR)
    elseif size > 0 then
      length = length + size
      if KEEPS_TTL then -- as shared/record.lua, whose function is not defined yet
        redis.call('SET', RECORD, ARGV[2] .. ':' .. length, 'KEEPTTL')
      elseif RECORD then
        redis.call('SET', RECORD, ARGV[2] .. ':' .. length, 'PX', LIFE)
      end
      return length
    end
  end
end
