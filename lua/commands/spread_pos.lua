-- Finds the positions of a value in a shard of a spread list.
--
-- requires: shared/end_shard
--
-- KEYS  1 the part of the shard
-- ARGV  1 to 5 as for commands/spread_close.lua; 6 the id of the shard, 7 the value, 8 how many elements to compare at most, or
--       0 for all; 9 1 or -1, the direction
-- Reply nil if there is no such shard; else the left and the right border, 1 or 0 for an open side and a closed one, and
--       the positions in the order found
-- Flags allow-oom
-- Cost  O(elements of the shard).
--
-- Safe because it changes nothing.

local shard, problem = find_shard(ARGV[6])
if not shard then
  return problem
end
local left, right = border(shard, 1), border(shard, 2)
local found = redis.call('LPOS', shard.key, ARGV[7], 'RANK', ARGV[9], 'COUNT', 0, 'MAXLEN', ARGV[8])
for i, at in ipairs(found) do
  found[i] = left + at
end
return { left, right, shard.open[1] and 1 or 0, shard.open[2] and 1 or 0, found }
