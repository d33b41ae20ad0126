-- Replaces an element of a spread list.
--
-- requires: shared/end_shard
--
-- KEYS  1 the part of the shard
-- ARGV  1 to 5 see shared/end_shard.lua; 6 the id of the shard, 7 the position of the element, or its index
--       if the list is this shard, 8 the new value, 9 1 if 7 is an index
-- Reply 1, or 0 if the shard has no such element
-- Cost  O(elements of the shard).
--
-- Safe because it reads every key before the first write. OOM refuses that, with nothing changed.

local done, failure = replay()
if done or failure then
  return tonumber(done) or failure
end
local shard, problem = find_shard(ARGV[6])
if problem then
  return problem
end
local at
if shard then
  at = tonumber(ARGV[7])
  if ARGV[9] ~= '1' then
    at = at - border(shard, 1)
  elseif not (shard.open[1] and shard.open[2]) then
    at = nil
  elseif at < 0 then
    at = at + shard.size
  end
end
if not at or at < 0 or at >= shard.size then
  touch()
  save_result(0)
  return 0
end
redis.call('LSET', shard.key, string.format('%.0f', at), ARGV[8])
save_result(1)
return 1
