-- The jobs of a queue. docs/queue.md explains them, and docs/models/queue.py is the protocol as a program.
--
-- A job that waits is an element of the list. One that is leased or delayed is an envelope in the hash JOBS, by its id, and a
-- member of the sorted set TIMES, which begins with the id. The score of a delayed job is the Unix time in milliseconds at
-- which it is due, that of a leased one is minus the time at which its lease ends. Behind the id is what no other lease has, so
-- a worker settles and extends its own lease only; a delayed job has zeros there. shared/envelope.lua has the format.
--
-- The hash QUEUE has these fields:
--   paused  1 if no jobs are to be taken
--   tat     the theoretical arrival time of the bucket, see shared/bucket.lua
--   pace    the microseconds between two tokens of that bucket, and how many tokens may be owed to it
--   waits   'jobs' if a process waits on the bell, 'limit' if it waits for the concurrency too
--   guard   the Unix time in milliseconds at which a process is going to look, and the name of that process
--   done, failed, dead   how often jobs ended so
--
-- requires: shared/list shared/bell shared/envelope

local QUEUE_BELL -- whatever list is selected

-- queue_away returns the error to reply with if a key of the queue, or another one, may be on another node.
local function queue_away(key)
  if is_moving(redis.pcall('EXISTS', META, QUEUE, TIMES, JOBS, key or META)) then
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
  ring(QUEUE_BELL)
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

-- In each call:

QUEUE_BELL = BELL
