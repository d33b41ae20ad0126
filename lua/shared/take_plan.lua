-- How many jobs commands/queue_take.lua may take, and from where.
--
-- What it knows is in one table, the take: its arguments, the state of the queue, and what is planned. Nothing is written.
--
-- requires: shared/wake shared/take shared/bucket shared/jobs

-- bucket_of returns the theoretical arrival time of the bucket if it goes on with these limits, how many tokens may be owed to
-- it, and whether it is another time than the one that is stored. What is owed counts in tokens: the take before may have had
-- other limits. It is too much only if the clock was set back.
local function bucket_of(tat, pace, now, interval, burst)
  local was_interval, most = string.match(pace or '', '^(%S+) (%d+)$')
  was_interval, most = tonumber(was_interval or interval), tonumber(most or burst)
  local owed = tat and (tat - now) / was_interval or 0
  if owed <= 0 or was_interval == interval and tat <= now + most * interval then
    return tat, most, false
  end
  return now + math.min(owed, most) * interval, most, true
end

-- begin_take returns the take. The list is open.
local function begin_take(list)
  local woken, time = ARGV[6] == 'woken', redis.call('TIME')
  local take = {
    list = list, left = ARGV[4] == 'L', woken = woken, name = ARGV[8],
    lease = tonumber(ARGV[9]), concurrency = tonumber(ARGV[10]), interval = tonumber(ARGV[11]), burst = tonumber(ARGV[12]),
    released = woken and is_released(ARGV[7]), micros = time[1] * 1000000 + time[2],
  }
  take.count, take.now = take.released and 0 or tonumber(ARGV[5]), math.floor(take.micros / 1000)
  take.paused, take.tat, take.pace, take.guard, take.waits =
    unpack(redis.call('HMGET', QUEUE, 'paused', 'tat', 'pace', 'guard', 'waits'))
  if take.interval > 0 then
    take.tat, take.most, take.counts_anew =
      bucket_of(tonumber(take.tat), take.pace, take.micros, take.interval, take.burst)
  end
  return take
end

-- read_stored reads jobs that are delayed or leased, until they have too many bytes. It returns their members and envelopes,
-- the members that have none, and how many bytes there are by now.
local function read_stored(stored, bytes)
  local found, texts, lost = {}, {}, {}
  for _, member in ipairs(stored) do
    local envelope = redis.call('HGET', JOBS, string.sub(member, 1, 16))
    if not envelope or not read_envelope(envelope) then
      lost[#lost + 1] = member
    elseif #found == 0 or bytes + #envelope <= TAKE_BYTES then
      bytes = bytes + #envelope
      found[#found + 1], texts[#texts + 1] = member, envelope
    else
      break
    end
  end
  return found, texts, lost, bytes
end

-- within_bytes returns how many of budget jobs of the list may be taken beside stored ones of so many bytes.
local function within_bytes(take, budget, stored, bytes)
  local list, left = take.list, take.left
  if budget == 0 or is_empty(list) or stored + budget <= 1 then
    return budget
  end
  local size = longest_of(list.shards .. (left and list.first or list.last), left, budget)
  return size > 0 and math.max(stored == 0 and 1 or 0, math.min(budget, math.floor((TAKE_BYTES - bytes) / size))) or budget
end

-- plan_jobs finds the jobs to take: old ones, whose lease has run out, those that are due, and parts of the list. It returns
-- the error to reply with, if there is one.
local function plan_jobs(take)
  redis.call('HGET', JOBS, '') -- an error if it is no hash
  local now, concurrency = take.now, take.concurrency
  local budget = take.paused and 0 or take.count
  if take.interval > 0 then
    budget = math.max(0, math.min(budget, bucket_tokens(take.tat, take.micros, take.interval, take.burst)))
  end
  local leased = concurrency > 0 and redis.call('ZCOUNT', TIMES, '-inf', '(0') or 0
  local bytes = 0
  take.old, take.due, take.old_texts, take.due_texts, take.lost, take.lost_due = {}, {}, {}, {}, {}, {}
  if budget > 0 and redis.call('ZCOUNT', TIMES, -now, now) > 0 then
    local ended = redis.call('ZREVRANGEBYSCORE', TIMES, '(0', -now, 'LIMIT', 0, budget)
    take.old, take.old_texts, take.lost, bytes = read_stored(ended, 0)
    budget = budget - #take.old
  end
  if concurrency > 0 then
    budget = math.max(0, math.min(budget, concurrency - leased))
  end
  if budget > 0 and bytes < TAKE_BYTES then
    local come = redis.call('ZRANGEBYSCORE', TIMES, '(0', now, 'LIMIT', 0, budget)
    take.due, take.due_texts, take.lost_due, bytes = read_stored(come, bytes)
    budget = budget - #take.due
  end
  local stored = #take.old + #take.due
  local parts, total, stop = plan_take(take.list, take.left, within_bytes(take, budget, stored, bytes))
  if not parts then
    return total
  end
  take.parts, take.total, take.stop, take.taken = parts, total, stop, stored + total
  take.full = concurrency > 0 and leased + #take.due + total >= concurrency
  if take.interval > 0 and take.taken > 0 then
    take.tat = bucket_take(take.tat, take.micros, take.interval, take.burst, take.taken)
  end
end
