-- Lets the pointers of a spread list enclose shards that a failover has put outside, or makes them again where they are lost.
--
-- requires: shared/spread_pointers
--
-- KEYS  1 meta
-- ARGV  1 the generation that the caller has read, or '' if there were no pointers; 2 the number of parts, 3 the capacity, 4
--       the generation of the shards; 5 and 6 the ids of the first and the last shard; 7 and 8 where they begin; 9 an epoch
--       newer than all that shards and parts have seen
-- Reply as that of commands/spread_pointers.lua; or nil if the list is another by now
-- Flags allow-oom
-- Cost  O(1).
--
-- Pointers may have moved since the caller looked: the ends are those that lie further outside. Safe because it may run twice.
-- OOM allows its first write.

local p, text = read_pointers()
if (p and string.format('%.0f', p.generation) or '') ~= ARGV[1] or (p and p.deleting) or (text and not p) then
  return false
elseif not text and redis.call('EXISTS', META) == 1 then
  return redis.error_reply('BADLAYOUT meta is a hash that belongs to no list')
end
local first, last, epoch = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[9])
local borders = { tonumber(ARGV[7]), tonumber(ARGV[8]) }
if p and p.generation == tonumber(ARGV[4]) then
  borders = { first < p.ids[1] and borders[1] or p.borders[1], last > p.ids[2] and borders[2] or p.borders[2] }
  first, last = math.min(first, p.ids[1]), math.max(last, p.ids[2])
end
epoch = math.max(p and p.next or microseconds(), epoch)
redis.call('HDEL', META, 'never') -- OOM allows this, and then what follows
save_pointers({
  parts = ARGV[2], cap = ARGV[3], generation = tonumber(ARGV[4]), ids = { first, last }, epochs = { epoch, epoch },
  borders = borders, next = epoch + 1, deleting = false, used = true,
})
if not p or p.generation ~= tonumber(ARGV[4]) then
  redis.call('HDEL', META, 'expiry') -- of another list
end
redis.call('PERSIST', META)
return reply()
