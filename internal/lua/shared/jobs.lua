-- The jobs of a queue. docs/queue.md explains them, and docs/models/queue.py is the protocol as a program.
--
-- A job that waits is an element of the list. One that is leased or delayed is an envelope in the hash JOBS, by its id, and a
-- member of the sorted set TIMES. The member is the id and the attempt, so a worker settles and extends the lease of its own
-- attempt only. The score of a delayed job is the Unix time in milliseconds at which it is due, that of a leased one is minus
-- the time at which its lease ends.
--
-- An envelope is '\255J', a byte of flags, the id in 16 bytes, the attempt in 2, what the flags say, and the payload. Any other
-- element of the list is the payload of a job without an id.
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

-- queue_away returns the error to reply with if a key of the queue may be on another node.
local function queue_away()
  if is_moving(redis.pcall('EXISTS', META, QUEUE, TIMES, JOBS)) then
    return redis.error_reply('TRYAGAIN the queue is moving to another node')
  end
end

-- ring_waiters wakes a process if any waits. The script has written before.
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

-- delay_jobs adds jobs that are due at that time. members and envelopes are arrays. It wakes a process if they come earlier
-- than anybody is going to look.
local function delay_jobs(members, envelopes, due, now)
  for i, member in ipairs(members) do
    redis.call('HSET', JOBS, string.sub(member, 1, 16), envelopes[i])
    redis.call('ZADD', TIMES, due, member)
  end
  local waits, guard = unpack(redis.call('HMGET', QUEUE, 'waits', 'guard'))
  if waits and not guarded(guard, now, due) and not is_away(QUEUE_BELL) then
    ring_waiters()
  end
end

-- release_unique lets the unique key of a job be used again.
local function release_unique(key, id)
  if key ~= '' and redis.pcall('GET', QUEUE .. ':unique:' .. key) == id then
    redis.call('DEL', QUEUE .. ':unique:' .. key)
  end
end
