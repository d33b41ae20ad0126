-- Pushes values at one end of a spread list.
--
-- requires: fast/spread_push_more shared/end_shard
--
-- KEYS  1 the part of the shard
-- ARGV  1 to 3 see shared/operation.lua, 4 and 5 see shared/end_shard.lua, 6… the values. Without values, the push counts as
--       done
-- Reply the length of the list, if this shard is all of it; or 'AT' and the position of the border at this end. If nothing was
--       pushed, a word with the epochs that the client knew and a number:
--         'CLOSED'      the list goes on outwards, from the border that the number is
--         'GONE'        the shard is no more, the list goes on inwards
--         'OTHER_GONE'  the same, but the other pointer has to move
--         'STALE'       the pointers are too old; the number is the epoch of the side
--         'EXPIRED'     the list has expired; the number is the stamp of its expiry
-- Cost  O(values).
--
-- All values go onto this shard, even beyond its capacity, so that a push is atomic. Safe because it reads every key before the
-- first write. That write may grow the data set if values are pushed: OOM refuses it with nothing changed.

local done, failure = replay()
if done then
  return tonumber(done) or done
elseif failure then
  return failure
end
local count = #ARGV - 5
local shard, problem = open_shard()
if type(problem) == 'table' then
  return problem
end

local result
if not shard then
  result = refusal(problem)
elseif not shard.open[SIDE] or (shard.size >= CAPACITY and count > 0) then
  local knows = shard.epoch[SIDE] == EPOCHS[SIDE]
  shut(shard, SIDE)
  result = knows and refusal('CLOSED', border(shard, SIDE)) or refusal('STALE', shard.epoch[SIDE])
end
local rings = shard and (shard.left or (not result and count > 0)) and disarm(shard)
if result or count == 0 then
  redis.call('HDEL', META, 'never') -- changes nothing, and OOM allows it
  touch()
end
if shard then
  save_shard(shard)
end
if not result then
  push_values(SIDE == 1 and 'LPUSH' or 'RPUSH', ELEMENTS, ARGV, 6, #ARGV)
  shard.size = shard.size + count
  result = shard.open[OTHER] and shard.size or string.format('AT %.0f', border(shard, SIDE))
end
if rings then
  ring()
end
save_result(result)
return result
