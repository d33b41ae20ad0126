-- Closes an end of a spread list, so that the list can be deleted.
--
-- requires: shared/end_shard
--
-- KEYS  1 the part of the shard
-- ARGV  1 to 3 see shared/operation.lua, 2 and 3 are ''; 4 and 5 see shared/end_shard.lua; 6 the stamp of the
--       expiry for which the list is deleted, or ''
-- Reply the number of elements in the shard; or, as words, the time and the stamp of another expiry that counts: nothing is
--       changed
-- Flags allow-oom
-- Cost  O(1).
--
-- Safe because it may run twice: a late copy finds the epoch of a list that was deleted. If there is no shard, it makes one,
-- which is closed, so that nobody else can; unless its epochs are too old to push, which is as good. OOM allows its first
-- write.

local shard, problem = open_shard(true)
if type(problem) == 'table' then
  return problem
elseif not shard then
  return 0
end
if ARGV[6] ~= '' and (EXPIRES == 0 or STAMP > tonumber(ARGV[6])) then
  return string.format('%.0f %.0f', EXPIRES, STAMP)
end
local rings = false
if shard.epoch[SIDE] == EPOCHS[SIDE] then
  shut(shard, SIDE)
  rings = disarm(shard)
end
redis.call('HDEL', META, 'never') -- OOM allows this, and then what follows
save_shard(shard)
if rings then
  ring()
end
return shard.size
