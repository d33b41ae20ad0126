-- The jobs of a queue. docs/queue.md explains them, and docs/models/queue.py is the protocol as a program.
--
-- A job that waits is an element of the list. One that is leased or delayed is an envelope in the hash JOBS, by its id, and a
-- member of the sorted set TIMES, which begins with the id. The score of a delayed job is the Unix time in milliseconds at
-- which it is due, that of a leased one is minus the time at which its lease ends. Behind the id is what no other lease has, so
-- a worker settles and extends its own lease only; a delayed job has zeros there.
--
-- An envelope is '\255J', a byte of flags, the id in 16 bytes, the attempt in 2, what the flags say, and the payload: with 1
-- the hash of the unique key in 40 bytes, with 2 the last error behind its length in 2. Any other element of the list is the
-- payload of a job without an id.
--
-- The hash QUEUE has these fields:
--   paused  1 if no jobs are to be taken
--   tat     the theoretical arrival time of the bucket, see shared/bucket.lua
--   waits   'jobs' if a process waits on the bell, 'limit' if it waits for the concurrency too
--   guard   the Unix time in milliseconds at which a process is going to look, and the name of that process
--   done, failed, dead   how often jobs ended so
--
-- requires: shared/list shared/bell

local QUEUE = PREFIX .. 'queue'
local TIMES = QUEUE .. ':times'
local JOBS = QUEUE .. ':jobs'
local QUEUE_BELL = BELL -- whatever list is selected

local NO_LEASE = string.rep('\0', 6) -- what a delayed job has behind its id

-- two_bytes is a number in two bytes.
local function two_bytes(number)
  local high = math.floor(number / 256)
  return string.char(high, number - high * 256)
end

local ENVELOPE = '^\255J[%z\1-\3]......[@-Op-\127].[\128-\191]' -- with a UUID of version 4 or 7

-- read_envelope returns the id, the attempt, the unique key, the payload and the last error of an envelope, or nil if it is
-- none. The key and the error are '' if there is none.
local function read_envelope(envelope)
  if #envelope < 21 or not string.find(envelope, ENVELOPE) then
    return nil
  end
  local flags, attempt = string.byte(envelope, 3), string.byte(envelope, 20) * 256 + string.byte(envelope, 21)
  local from, unique, failure_text = 22, '', ''
  if flags % 2 == 1 then
    unique, from = string.sub(envelope, from, from + 39), from + 40
  end
  if flags > 1 then
    local high, low = string.byte(envelope, from, from + 1)
    if not low then
      return nil
    end
    local size = high * 256 + low
    failure_text, from = string.sub(envelope, from + 2, from + 1 + size), from + 2 + size
  end
  if from > #envelope + 1 then
    return nil
  end
  return string.sub(envelope, 4, 19), attempt, unique, string.sub(envelope, from), failure_text
end

-- envelope_of returns the envelope of a job.
local function envelope_of(id, attempt, unique, payload, failure_text)
  local flags = (unique ~= '' and 1 or 0) + (failure_text ~= '' and 2 or 0)
  failure_text = failure_text ~= '' and two_bytes(#failure_text) .. failure_text or ''
  return '\255J' .. string.char(flags) .. id .. two_bytes(attempt) .. unique .. failure_text .. payload
end

-- queue_away returns the error to reply with if a key of the queue may be on another node.
local function queue_away()
  if is_moving(redis.pcall('EXISTS', META, QUEUE, TIMES, JOBS)) then
    return redis.error_reply('TRYAGAIN the queue is moving to another node')
  end
end

-- waiting returns, before the first write, what a process waits for that may be woken: see the field waits. The list of the
-- queue is selected.
local function waiting()
  local waits = redis.call('HGET', QUEUE, 'waits')
  return waits and bell_is_here() and waits
end

-- ring_waiters wakes a process that waits.
local function ring_waiters()
  redis.call('HDEL', QUEUE, 'waits')
  if redis.call('RPUSH', QUEUE_BELL, '1') > 1 then
    redis.call('LPOP', QUEUE_BELL)
  end
  redis.call('PEXPIRE', QUEUE_BELL, IDLE_MS)
end

-- guarded tells whether a process is going to look by then.
local function guarded(guard, now, event)
  local at = guard and tonumber(string.match(guard, '^%d+'))
  return at and at > now and at <= event
end

-- delay_jobs adds jobs that are due at that time. If somebody waits, it wakes a process, unless one is going to look by then.
local function delay_jobs(envelopes, due, now, waits)
  for _, envelope in ipairs(envelopes) do
    local id = string.sub(envelope, 4, 19)
    redis.call('HSET', JOBS, id, envelope)
    redis.call('ZADD', TIMES, string.format('%.0f', due), id .. NO_LEASE)
  end
  if waits and not guarded(redis.call('HGET', QUEUE, 'guard'), now, due) then
    ring_waiters()
  end
end

-- unique_away returns the error to reply with if a unique key may be on another node: the job that has it ends later then.
local function unique_away(key)
  if key ~= '' and is_away(QUEUE .. ':unique:' .. key) then
    return redis.error_reply('TRYAGAIN the unique key is moving to another node')
  end
end

-- release_unique lets the unique key of a job be used again.
local function release_unique(key, id)
  if key ~= '' and redis.call('GET', QUEUE .. ':unique:' .. key) == id then
    redis.call('DEL', QUEUE .. ':unique:' .. key)
  end
end
