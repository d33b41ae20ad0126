-- Reads elements of a shard of a spread list, and where its borders are.
--
-- requires: shared/end_shard
--
-- KEYS  1 the part of the shard
-- ARGV  1 to 5 as for commands/spread_close.lua; 6 the id of the shard; 7 what positions count from: 'L' or 'R' for a border of
--       the shard, or '' for 0; 8 and 9 the first and the last of them to read. With 'ALL' they are indices of a list of one
--       shard, and nothing is read if it has more
-- Reply nil if there is no such shard, or it is an end of a list that has expired; else the left and the right border, 1 or 0
--       for an open side and a closed one, the elements, and what is known of the expiry: '' or its time, its stamp, and the
--       time now
-- Flags allow-oom
-- Cost  O(elements of the shard).
--
-- Safe because it changes nothing.

local shard, problem = find_shard(ARGV[6])
if not shard then
  return problem
end
local left, right = border(shard, 1), border(shard, 2)
if shard.timed or EXPIRES > 0 then
  learn(redis.call('HGET', META, 'expiry'))
end
local is_end = ARGV[6] == tostring(IDS[1]) or ARGV[6] == tostring(IDS[2]) -- others need not know that the expiry has changed
if is_end and has_expired() and not (shard.size == 0 and shard.open[1] and shard.open[2]) then
  return false
end
local expiry = STAMP > 0 and string.format('%.0f %.0f %.0f', EXPIRES, STAMP, clock()) or ''
local elements
if ARGV[7] == 'ALL' then
  elements = shard.open[1] and shard.open[2] and redis.call('LRANGE', shard.key, ARGV[8], ARGV[9]) or {}
else
  local base = ARGV[7] == 'L' and 0 or ARGV[7] == 'R' and shard.size or -left
  local from, to = math.max(0, base + tonumber(ARGV[8])), math.min(shard.size - 1, base + tonumber(ARGV[9]))
  elements = from <= to and redis.call('LRANGE', shard.key, from, to) or {}
end
return { left, right, shard.open[1] and 1 or 0, shard.open[2] and 1 or 0, elements, expiry }
