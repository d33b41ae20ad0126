-- Takes tokens from a bucket. KEYS and ARGV are those of commands/limit_bucket.lua; see fast/limit_fixed.lua for why this is
-- here.
--
-- requires: shared/is_new shared/bucket shared/holes shared/record

-- exactly formats a number so that it is read as the same number.
local function exactly(number)
  return string.format('%.17g', number)
end

-- take_tokens takes tokens, that are there or will be in time, or refuses.
local function take_tokens()
  local rate, per, burst = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
  local n, patience, interval = tonumber(ARGV[7]), tonumber(ARGV[8]), per / rate
  local now = microseconds()
  local state = redis.call('HMGET', META, 'tat', 'holes', 'records')
  local tat = tonumber(state[1])
  local place, id, start, rest = take_hole(state[2] or '', now, patience, n)
  if place then
    redis.call('HSET', META, 'holes', rest)
    keep_until(tat, now, state[3])
    return verdict(true, 0, place - now, now, start, id, whole(place))
  end
  local at = bucket_next(tat, now, interval, burst, n)
  if at - now > patience then
    refuse_nothing()
    return verdict(false, bucket_tokens(tat, now, interval, burst), at - now, now)
  end
  local before, after = math.max(tat or now, now), bucket_take(tat, now, interval, burst, n)
  redis.call('HSET', META, 'tat', exactly(after))
  if state[2] and before == now then
    redis.call('HDEL', META, 'holes') -- they are past
  end
  keep_until(after, now, state[3])
  return verdict(true, bucket_tokens(after, now, interval, burst), at - now, now, exactly(before), exactly(after), whole(at))
end

-- In each call:

if IS_NEW then
  local result = take_tokens()
  save_record(result)
  return result
end
