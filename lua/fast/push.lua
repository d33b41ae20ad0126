-- Pushes values into an end shard that has room for them. KEYS and ARGV are those of commands/push.lua.
--
-- requires: fast/begin shared/pieces

local COUNT = #ARGV - 5
FAST = FAST and COUNT > 0 and COUNT < UNPACK_MAX and (COUNT == 1 or #ARGV[6] * COUNT < PIECE)
if FAST and HAS_ELEMENTS and (JOIN > 0 or not WATCHES) then
  local length = 0
  if SPAN > 0 then
    length = redis.call('LLEN', SHARDS .. (LEFT and LAST or FIRST))
    FAST = length > 0
    length = length + (SPAN - 1) * CAP
  end
  if FAST and COUNT > 1 then
    local size = redis.call('LLEN', NEAR)
    FAST = size > 0 and size + COUNT <= CAP
  end
  if FAST then
    local PUSHX, size = LEFT and 'LPUSHX' or 'RPUSHX'
    if COUNT == 1 then
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
