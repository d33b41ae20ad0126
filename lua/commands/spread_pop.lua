-- Pops up to count elements from the shard at an end of a spread list. The caller may wait for more.
--
-- requires: fast/spread_pop_more shared/end_shard shared/elements
--
-- KEYS  1 the part of the shard
-- ARGV  1 to 3 see shared/operation.lua, 4 and 5 see shared/end_shard.lua, 6 count: with 0, the pop counts as done; 7 how the
--       caller waits: 'no', 'first', 'again' or 'woken', see commands/pop.lua; 8 the release key of one that was woken
-- Reply 1 if the pop had been done before, else 0; then a word, and an array of elements:
--         'OK'           there are count elements; 'AT' and the border at this end if the list has more shards
--         'EMPTY'        the list has no more; it is armed if the caller waits
--         'GONE'         there may be more inwards, and the shard is no more; with the epochs that the client knew and a number
--         'OTHER_STALE'  the pointers are too old; the number is the epoch of the other side
--         'DRAINED'      there are elements, the last of this shard, which is no more. The list is to expire: before the caller
--                        returns, it has to look whether there are more inwards
--       or 'CLOSED', 'OTHER_GONE', 'STALE' or 'EXPIRED', see commands/spread_push.lua. Or only the word, '=' and one element,
--       popped now
-- Flags allow-oom
-- Cost  O(elements popped).
--
-- Safe because it reads every key before the first write, and because that write (HDEL) cannot grow the data set: OOM
-- allows it. No wake-up is lost: a woken pop that leaves the list empty arms it, and any other rings.

local done, failure = replay()
if done then
  local head, popped = replay_elements(done)
  return { 1, head, popped or {} }
elseif failure then
  return failure
end
local how, count = ARGV[7], tonumber(ARGV[6])
local woken, released = how == 'woken', false
if woken and ARGV[8] ~= '' then
  local seen = redis.pcall('EXISTS', ARGV[8])
  released = not is_moving(seen) and seen == 1
end
local shard, problem = open_shard()
if type(problem) == 'table' then
  return problem
end

local word, took, retires = problem and refusal(problem), 0, false
if shard and not shard.open[SIDE] then
  local knows = shard.epoch[SIDE] == EPOCHS[SIDE]
  word = knows and refusal('CLOSED', border(shard, SIDE)) or refusal('STALE', shard.epoch[SIDE])
elseif shard then
  took = released and 0 or math.min(count, shard.size)
  local left = shard.size - took
  if left == 0 and took > 0 and EXPIRES > 0 and not shard.open[OTHER] then
    retires = true
    word = refusal('DRAINED')
  elseif left > 0 or (took == count and took > 0 and not woken) or (released and not shard.open[OTHER]) then
    word = 'OK'
  elseif not shard.open[OTHER] then
    retires = true
    word = shard.epoch[SIDE] == EPOCHS[SIDE] and refusal('GONE') or refusal('STALE', shard.epoch[SIDE])
  elseif took == 0 and IDS[1] ~= IDS[2] and shard.epoch[OTHER] > EPOCHS[OTHER] then
    word = refusal('OTHER_STALE', shard.epoch[OTHER])
  else
    word = took == count and count > 0 and 'OK' or 'EMPTY'
  end
end
if word == 'OK' and shard and not shard.open[OTHER] then
  word = string.format('AT %.0f', border(shard, SIDE) + (SIDE == 1 and took or -took))
end
problem = elements_problem(took)
if problem then
  return problem
end
local empties = shard and shard.open[SIDE] and shard.open[OTHER] and took == shard.size
local arms = empties and how ~= 'no' and (woken or took < count) and string.sub(word, 1, 5) ~= 'OTHER' and bell_is_here()
local rings = woken and not arms and bell_is_here()
if shard and shard.left or retires then
  rings = disarm(shard) or rings
end

redis.call('HDEL', META, 'never') -- changes nothing, and OOM allows it
touch()
if released then
  redis.call('DEL', ARGV[8])
end
local popped = took > 0 and { redis.call(SIDE == 1 and 'LPOP' or 'RPOP', ELEMENTS, took) } or {}
if retires then
  redis.call('HSET', META, 'mark', string.format('%.0f', math.max(shard.mark, shard.epoch[1], shard.epoch[2])))
  save_learnt()
  redis.call('HDEL', META, SHARD) -- not before: a part that is gone for a moment cannot be made again while its slot moves
  expire_part()
elseif shard then
  if arms then
    redis.call('DEL', BELL)
    shard.armed, shard.changed = true, true
  end
  save_shard(shard)
end
if rings then
  ring()
end
save_elements(word, popped, took)
return { 0, word, popped[1] or {} }
