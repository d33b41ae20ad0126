-- The arithmetic of a token bucket, as the generic cell rate algorithm (GCRA) has it.
--
-- The state is one number, the theoretical arrival time: when the bucket will be full again. It is in microseconds, like now
-- and the interval between two tokens, which may have a fraction. A bucket without a state is full, and so is one whose time
-- has come. A time further ahead than burst intervals means debt: tokens were taken that are yet to come.
--
-- Numbers of the size of today's clock have quarters of a microsecond. Results are rounded so that a bucket never gives more
-- than its rate, and less by a quarter of a microsecond a take at most.

-- above returns the next number that can be represented.
local function above(number)
  local _, exponent = math.frexp(number)
  return number + 2 ^ (exponent - 53)
end

-- bucket_next returns the time, at or after now, at which n tokens will be there. n is at most burst.
local function bucket_next(tat, now, interval, burst, n)
  local spare = (burst - n) * interval
  local time = (tat or now) - spare
  if (tat or now) - time > spare then -- it was rounded down
    time = above(time)
  end
  return math.max(now, math.ceil(time))
end

-- bucket_tokens returns how many whole tokens there are: 0 if the bucket is in debt.
local function bucket_tokens(tat, now, interval, burst)
  local tokens = math.floor(burst - math.max(0, (tat or now) - now) / interval)
  tokens = math.max(0, math.min(burst, tokens))
  -- The division rounds. bucket_next decides, so that both always agree.
  if tokens < burst and bucket_next(tat, now, interval, burst, tokens + 1) <= now then
    return tokens + 1
  elseif tokens > 0 and bucket_next(tat, now, interval, burst, tokens) > now then
    return tokens - 1
  end
  return tokens
end

-- bucket_take returns the state after n tokens have been taken, whether they are there or not.
local function bucket_take(tat, now, interval, _, n)
  local from = math.max(tat or now, now)
  local sum = from + n * interval
  if sum - from < n * interval then -- it was rounded down
    sum = above(sum)
  end
  return sum
end
