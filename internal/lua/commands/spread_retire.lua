-- Unlinks shards of a spread list that was deleted.
--
-- requires: shared/end_shard
--
-- KEYS  1 the part of the shards
-- ARGV  1 to 5 as for commands/spread_close.lua, 4 and 5 of the list that was deleted; 6… the ids of shards in that part
-- Reply the number of shards that were there
-- Cost  O(shards), and the freeing of their elements is done by another thread of the server.
--
-- Safe because it may run twice. OOM allows its first write.

if redis.call('EXISTS', META) == 0 and is_away(PREFIX .. GENERATION .. '.' .. ARGV[6]) then
  return redis.error_reply('TRYAGAIN the shards are moving to another node')
end
local found, mark, rings = 0, 0, false
for i = 6, #ARGV do
  local field = GENERATION .. '.' .. ARGV[i]
  local state = redis.call('HGET', META, field)
  if state and redis.call('LLEN', PREFIX .. field) == 0 and is_away(PREFIX .. field) then
    return redis.error_reply('TRYAGAIN shard ' .. ARGV[i] .. ' is moving to another node')
  end
  local shard = state and read_shard(state)
  if shard then
    found, mark, rings = found + 1, math.max(mark, shard.epoch[1], shard.epoch[2]), rings or shard.armed
  end
end
if found == 0 then
  return 0
end
rings = rings and bell_is_here()
mark = math.max(mark, tonumber(redis.call('HGET', META, 'mark')) or 0)
for i = 6, #ARGV do
  redis.call('UNLINK', PREFIX .. GENERATION .. '.' .. ARGV[i])
  redis.call('HDEL', META, GENERATION .. '.' .. ARGV[i])
end
redis.call('HSET', META, 'mark', string.format('%.0f', mark))
expire_part()
if rings then
  ring()
end
return found
