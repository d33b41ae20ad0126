-- Takes jobs and leases them: first those whose lease has run out, then those that are due, then those that wait.
--
-- requires: fast/take shared/elements shared/sweep shared/wake shared/take shared/take_in shared/bucket shared/jobs
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 'L' or 'R', 5 how many, 6 how the caller waits, see commands/pop.lua, 7 its
--       release key, 8 its name, 9 the lease in milliseconds, 10 the concurrency, or 0; 11 the microseconds a token takes to
--       arrive, or 0, and 12 the burst; 13 sixteen random bytes that no other take has: they become the ids of jobs that have
--       none, and the first six are behind the ids of the members, see shared/jobs.lua
-- Reply when to look again, in milliseconds from now, or -1 if not before the bell; 2 if the jobs had been taken before, 1 if
--       there were newcomers, or else 0; what is behind the ids of the members; then the envelopes of the jobs
-- Flags allow-oom
-- Cost  O(jobs taken * log(jobs leased and delayed)). It stops at jobs of four megabytes together, those of the list by the
--       sizes of some.
--
-- Safe because it reads every key before the first write, and because that write cannot grow the data set: OOM allows it. It
-- adds before it removes, as commands/queue_settle.lua does.
--
-- No wake-up is lost: while a job can be taken, or will be at a known time, and a process waits, a dummy is in the bell, or a
-- take is about to run, or a process is going to look by then: the guard. A woken take that leaves nobody to look rings
-- again.

local LEASE = string.sub(ARGV[13], 1, 6)

local done, failure = replay()
if failure then
  return failure
end
if done then
  local head, saved = replay_elements(done) -- the lease, and the ids
  saved = saved and saved[1] or LEASE
  local lease = string.sub(saved, 1, #LEASE)
  local reply = { tonumber(head), 2, lease }
  local now = clock()
  for from = #LEASE + 1, #saved, 16 do
    local id = string.sub(saved, from, from + 15)
    local envelope = redis.call('HGET', JOBS, id)
    if envelope and tonumber(redis.call('ZSCORE', TIMES, id .. lease) or 0) < 0 then
      redis.call('ZADD', TIMES, string.format('-%.0f', now + ARGV[9]), id .. lease) -- it begins now
      reply[#reply + 1] = envelope
    end
  end
  return reply
end
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

local function pace_of(interval, most)
  return string.format('%.17g %.0f', interval, most)
end

-- take_jobs is a function since a script may have 200 local variables, and a function as many more.
local function take_jobs()
  local left, count, woken, name = ARGV[4] == 'L', tonumber(ARGV[5]), ARGV[6] == 'woken', ARGV[8]
  local lease, concurrency, interval, burst = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
  local list, problem = open(ARGV[6] ~= 'first' and 'waiting' or nil, false, popped_at(left))
  problem = problem or queue_away()
  if problem then
    return problem
  end
  local released = woken and is_released(ARGV[7])
  if released then
    count = 0
  end

  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local now = math.floor(micros / 1000)
  local paused, tat, pace, guard, waits = unpack(redis.call('HMGET', QUEUE, 'paused', 'tat', 'pace', 'guard', 'waits'))
  local most, counts_anew = burst, false
  if interval > 0 then
    tat, most, counts_anew = bucket_of(tonumber(tat), pace, micros, interval, burst)
  end

  -- next_take returns when a job may be taken, in milliseconds, after this script has taken some and if nothing else happens;
  -- or nil.
  local function next_take(after)
    if paused then
      return nil
    end
    local ended = redis.call('ZREVRANGEBYSCORE', TIMES, '(0', '-inf', 'WITHSCORES', 'LIMIT', after.old, 1)
    local event = math.min(ended[2] and -ended[2] or math.huge, after.taken > 0 and now + lease or math.huge)
    if not after.full then
      local comes = redis.call('ZRANGEBYSCORE', TIMES, '(0', '+inf', 'WITHSCORES', 'LIMIT', after.due, 1)
      event = math.min(event, after.empties and tonumber(comes[2]) or after.empties and math.huge or now)
    end
    if interval > 0 and event < math.huge then
      event = math.max(event, math.ceil(bucket_next(tat, micros, interval, burst, 1) / 1000))
    end
    return event < math.huge and math.max(event, now) or nil
  end

  local envelopes, ids, fields, scores = {}, {}, {}, {}

  -- add leases a job under that envelope.
  local function add(id, envelope)
    local i = #ids + 1
    ids[i] = id
    envelopes[i] = envelope
    fields[2 * i - 1], fields[2 * i] = id, envelope
    scores[2 * i - 1], scores[2 * i] = string.format('-%.0f', now + lease), id .. LEASE
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

  -- Read: how many jobs may be taken, and from where.
  redis.call('HGET', JOBS, '') -- an error if it is no hash
  local budget = paused and 0 or count
  if interval > 0 then
    budget = math.max(0, math.min(budget, bucket_tokens(tat, micros, interval, burst)))
  end
  local leased = concurrency > 0 and redis.call('ZCOUNT', TIMES, '-inf', '(0') or 0
  local old, due, old_texts, due_texts, lost, lost_due = {}, {}, {}, {}, {}, {}
  local bytes = 0
  if budget > 0 and redis.call('ZCOUNT', TIMES, -now, now) > 0 then
    old, old_texts, lost, bytes = read_stored(redis.call('ZREVRANGEBYSCORE', TIMES, '(0', -now, 'LIMIT', 0, budget), 0)
    budget = budget - #old
  end
  if concurrency > 0 then
    budget = math.max(0, math.min(budget, concurrency - leased))
  end
  if budget > 0 and bytes < TAKE_BYTES then
    due, due_texts, lost_due, bytes = read_stored(redis.call('ZRANGEBYSCORE', TIMES, '(0', now, 'LIMIT', 0, budget), bytes)
    budget = budget - #due
  end
  if budget > 0 and not is_empty(list) and #old + #due + budget > 1 then
    local size = longest_of(list.shards .. (left and list.first or list.last), left, budget)
    if size > 0 then
      budget = math.max(#old + #due == 0 and 1 or 0, math.min(budget, math.floor((TAKE_BYTES - bytes) / size)))
    end
  end
  local parts, total, stop = plan_take(list, left, budget)
  if not parts then
    return total
  end
  local taken = #old + #due + total
  local stays = taken < count
  local empties = stop < list.first or stop > list.last
  if interval > 0 and taken > 0 then
    tat = bucket_take(tat, micros, interval, burst, taken)
  end

  -- Read: who has to look again, and when.
  local mine = guard and string.match(guard, ' (.*)$') == name
  local looks = stays or woken or mine
  local may_ring = looks and bell_is_here()
  local full = concurrency > 0 and leased + #due + total >= concurrency
  local wait, rings, arms = -1, false, false
  if looks then
    local event = next_take({ full = full, empties = empties, old = #old, due = #due, taken = taken })
    if event and (mine or not guarded(guard, now, event)) then
      wait = stays and math.max(event - now, 0) or -1
      rings = not stays and may_ring
    end
    arms = empties and may_ring and not rings
  end

  -- Write: the leases.
  local popped = take_planned(list, left, parts, stop, arms)
  if total == 0 then
    redis.call('HDEL', QUEUE, 'never') -- changes nothing, and OOM allows it
  end
  if released then
    redis.call('DEL', ARGV[7])
  end
  for _, envelope in ipairs(old_texts) do
    local id, attempt, unique, payload, failure_text = read_envelope(envelope)
    add(id, envelope_of(id, math.min(attempt + 1, 65535), unique, payload, failure_text))
  end
  for _, envelope in ipairs(due_texts) do
    add(string.sub(envelope, 4, 19), envelope)
  end
  for _, shard in ipairs(popped) do
    for _, element in ipairs(shard) do
      add(waited(element, ARGV[13], #ids))
    end
  end
  if taken > 0 then
    redis.call('HSET', JOBS, unpack(fields))
    redis.call('ZADD', TIMES, unpack(scores))
  end
  for _, members in ipairs({ lost, lost_due, old, due }) do
    if #members > 0 then
      redis.call('ZREM', TIMES, unpack(members))
    end
  end
  if interval > 0 and (taken > 0 or counts_anew) then
    redis.call('HSET', QUEUE, 'tat', string.format('%.3f', tat))
    local now_pace = pace_of(interval, taken > 0 and burst or most)
    if pace ~= now_pace then
      redis.call('HSET', QUEUE, 'pace', now_pace)
    end
  end

  -- Write: who looks again.
  if looks then
    if rings then
      ring()
    else
      redis.call('HSET', QUEUE, 'waits', (full or waits == 'limit') and 'limit' or 'jobs') -- by the options of others, perhaps
    end
    if wait >= 0 then
      redis.call('HSET', QUEUE, 'guard', string.format('%.0f ', now + wait) .. name)
    elseif guard and (mine or not guarded(guard, now, math.huge)) then
      redis.call('HDEL', QUEUE, 'guard')
    end
    if arms then
      arm(list)
    end
  end
  sweep(list)
  local head = string.format('%.0f', wait)
  save_elements(head, { { LEASE .. table.concat(ids) } }, taken > 0 and 1 or 0)
  return { wait, list.found and 1 or 0, LEASE, unpack(envelopes) }
end

return take_jobs()
