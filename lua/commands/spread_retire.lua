-- Unlinks shards of a spread list that was deleted.
--
-- requires: shared/end_shard
--
-- KEYS  1 the part of the shards
-- ARGV  1 to 5 as for commands/spread_close.lua, 4 and 5 of the list that was deleted; 6… the ids of shards in that part
-- Reply the number of shards that were there
-- Flags allow-oom
-- Cost  O(shards), and the freeing of their elements is done by another thread of the server.
--
-- Safe because it may run twice. OOM allows its first write.

local found, mark, rings = 0, 0, false
for i = 6, #ARGV do
  local shard, problem = find_shard(ARGV[i])
  if problem then
    return problem
  elseif shard then
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
end
redis.call('HSET', META, 'mark', string.format('%.0f', mark))
for i = 6, #ARGV do -- behind the mark, see commands/spread_pop.lua
  redis.call('HDEL', META, GENERATION .. '.' .. ARGV[i])
end
expire_part()
if rings then
  ring()
end
return found
