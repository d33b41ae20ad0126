-- Takes tokens from a bucket, which gets new ones at a steady rate and holds up to a number of them.
--
-- requires: shared/counted shared/bucket shared/holes
--
-- KEYS  1 the state: a hash with the fields tat, see shared/bucket.lua, and holes, see commands/limit_bucket_return.lua
-- ARGV  1 to 3 see shared/operation.lua, 4 the rate: how many tokens come in, 5 so many microseconds; 6 the burst: how many
--       the bucket holds, 7 how many to take, 8 how much later than now they may come, in microseconds
-- Reply see verdict in shared/limit.lua; what gives them back is the tat before, the tat after, and the time of the tokens
-- Cost  O(1): three calls.
--
-- Safe because it reads the record and the state before the first write. That is HSET if it takes tokens, which OOM refuses
-- with nothing changed; a refusal writes its record only, and OOM allows it.

local state, reply = read_state('tat', 'holes')
if not state then
  return reply
end
local rate, per, burst = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local n, patience, interval = tonumber(ARGV[7]), tonumber(ARGV[8]), per / rate
local now = microseconds()
local tat, holes = tonumber(state[3] or nil), state[4]
local place, id, start, rest = take_hole(holes or '', now, patience, n)
if place then
  return save_state(verdict(true, 0, place - now, now, start, id, whole(place)), tat, now, 'holes', rest)
end
local at = bucket_next(tat, now, interval, burst, n)
if at - now > patience then
  write_nothing()
  return save_state(verdict(false, bucket_tokens(tat, now, interval, burst), at - now, now), now, now)
end
local is_full, after = not tat or tat <= now, bucket_take(tat, now, interval, burst, n)
local before, tat_after = is_full and whole(now) or state[3], string.format('%.17g', after) -- which is read as the same number
local result = verdict(true, bucket_tokens(after, now, interval, burst), at - now, now, before, tat_after,
  is_full and at == now and before or whole(at))
save_state(result, after, now, 'tat', tat_after)
if holes and is_full then
  redis.call('HDEL', META, 'holes') -- they are past
end
return result
