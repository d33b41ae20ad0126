-- Pushes values into an end shard that has room for them. KEYS and ARGV are those of commands/push.lua.
--
-- requires: fast/begin shared/pieces

local COUNT = #ARGV - 5
FAST = FAST and COUNT > 0 and COUNT < UNPACK_MAX and (COUNT == 1 or #ARGV[6] * COUNT < PIECE)
if FAST and HAS_ELEMENTS and (JOIN > 0 or not WATCHES) then
  local left, length = ARGV[4] == 'L', 0
  if FIRST < LAST then
    length = redis.call('LLEN', SHARDS .. (left and LAST or FIRST))
    FAST = length > 0
    length = length + (LAST - FIRST - 1) * CAP
  end
  local near = SHARDS .. (left and FIRST or LAST)
  if FAST and COUNT > 1 then
    local size = redis.call('LLEN', near)
    FAST = size > 0 and size + COUNT <= CAP
  end
  if FAST then
    local size = redis.call(left and 'LPUSHX' or 'RPUSHX', near, unpack(ARGV, 6)) -- for one value, this saves the LLEN
    if size > CAP then
      redis.call(left and 'LPOP' or 'RPOP', near)
    elseif size > 0 then
      save_record(length + size)
      return length + size
    end
  end
end
