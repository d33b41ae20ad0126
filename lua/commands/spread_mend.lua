-- Mends a shard of a spread list after commands/spread_repair.lua has set the pointers.
--
-- requires: shared/end_shard
--
-- KEYS  1 the part of the shard
-- ARGV  1 to 5 as for commands/spread_close.lua; 6 the id of the shard; 7 the position at which it begins, or '' if unknown
-- Reply the positions at which the shard begins and ends; or nil if there is none
-- Flags allow-oom
-- Cost  O(1).
--
-- A side at which no pointer stands is closed. A shard that is missing between the ends is made, and is closed: so those behind
-- it can be read and popped. Safe because it may run twice. OOM allows its first write.

local id, begins = tonumber(ARGV[6]), tonumber(ARGV[7])
local shard, problem = find_shard(ARGV[6])
if problem then
  return problem
end
SHARD = GENERATION .. '.' .. ARGV[6]
if not shard then
  local mark = tonumber(redis.call('HGET', META, 'mark')) or 0
  if not begins or EPOCHS[1] <= mark or id == IDS[1] or id == IDS[2] then
    return false
  end
  shard = {
    open = { false, false }, armed = false, at = 1, epoch = { 0, 0 }, position = begins, size = 0, changed = true, made = true,
  }
end
local rings = false
for side = 1, 2 do
  if IDS[side] ~= id and shard.open[side] then
    shut(shard, side)
    rings = disarm(shard) or rings
  end
end
if begins and not shard.open[1] and border(shard, 1) ~= begins then
  shard.position, shard.changed = shard.position + begins - border(shard, 1), true
end
redis.call('HDEL', META, 'never') -- OOM allows this, and then what follows
save_shard(shard)
if rings then
  ring()
end
return { border(shard, 1), border(shard, 2) }
