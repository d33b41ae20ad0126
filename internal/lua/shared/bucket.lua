-- A token bucket as one number: the theoretical arrival time, tat, in microseconds. A token takes one interval to arrive, and
-- tat lies one interval ahead for each token that has been taken and has not arrived yet.

-- bucket_base returns the tat from which tokens count, since the bucket holds burst tokens at most.
local function bucket_base(tat, now, interval, burst)
  return math.max(tat or -math.huge, now - burst * interval)
end

-- bucket_tokens returns how many whole tokens there are.
local function bucket_tokens(tat, now, interval, burst)
  return math.floor((now - bucket_base(tat, now, interval, burst)) / interval + 1e-9)
end

-- bucket_take returns the tat after n tokens have been taken.
local function bucket_take(tat, now, interval, burst, n)
  return bucket_base(tat, now, interval, burst) + n * interval
end

-- bucket_next returns the time at which there are n tokens.
local function bucket_next(tat, now, interval, burst, n)
  return math.max(now, bucket_base(tat, now, interval, burst) + n * interval)
end
