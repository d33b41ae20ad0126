-- Pushes values into a list that does not exist, or into an empty one where a consumer waits, whom it wakes. Lists are so while
-- they are short, and while their consumers keep up. KEYS and ARGV are those of commands/push.lua.
--
-- It writes what shared/write_pointers.lua and shared/ring.lua do, without defining their functions. From here on, fast paths
-- leave values that do not fit into one shard, and operations without a record, to the command.
--
-- requires: fast/push

-- In each call:

FAST = FAST and RECORD and VALUE_COUNT <= (tonumber(ARGV[5]) or 0)
if FAST and (not WRITTEN or ARMED and SPAN < 0) then
  local id, bell, unused = LEFT and '-1' or '0', PREFIX .. 'bell', NOTHING
  if ARMED then
    id = (LEFT and FIRST - 1 or LAST + 1) .. ''
    unused = redis.pcall('EXISTS', META, SHARDS .. id, bell, PLAIN or bell) == 1 -- there is only meta
  elseif not unused then
    unused = redis.pcall('EXISTS', META, PLAIN or PREFIX .. 'never') == 0
  end
  if unused then
    local stored = STORED or '#' .. string.sub(ARGV[1], -12) .. '.' .. ARGV[2] -- see shared/identity.lua
    local join = WATCHES and JOIN == 0 and (LEFT and 1 or 2) or JOIN
    local shard = (SHARDS or PREFIX .. stored .. ':') .. id
    local ids = ' ' .. id .. ' ' .. id .. ' '
    redis.call('HSET', META, 'layout', LAYOUT .. ids .. ARGV[5] .. ' ' .. string.char(48 + 2 * join) .. ' ' .. stored)
    redis.call(LEFT and 'LPUSH' or 'RPUSH', shard, unpack(ARGV, 6))
    if ARMED then
      redis.call('PERSIST', META)
      redis.call('RPUSH', bell, '1')
      redis.call('PEXPIRE', bell, IDLE_MS)
    end
    if KEEPS_TTL then
      redis.call('SET', RECORD, ARGV[2] .. ':' .. VALUE_COUNT, 'KEEPTTL')
    else
      redis.call('SET', RECORD, ARGV[2] .. ':' .. VALUE_COUNT, 'PX', LIFE)
    end
    return VALUE_COUNT
  end
end
