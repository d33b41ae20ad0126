-- Ends the leases of jobs: they are done, or delayed.
--
-- requires: fast/settle shared/unique
--
-- KEYS  1 meta
-- ARGV  1 the members of jobs that are done and have no unique key, one behind the other, see shared/jobs.lua; then four for
--       each other job: its member; '' if it is done, or by how many milliseconds it is delayed; its unique key if it is done,
--       or why it failed; '1' if the attempt counts
-- Reply for each job '1', or '0' if it was not leased under that member any more, as one string
-- Flags allow-oom
-- Cost  O(jobs * log(jobs leased and delayed)).
--
-- Safe because it may run twice: no other lease has a member that is removed. It reads every key before the first write, and
-- that write changes nothing: OOM allows it. It adds before it removes: while the slot moves, a key that has become empty
-- cannot be created again.

local JOB = 2 -- the first that is not in ARGV[1]

local problem = queue_away()
if problem then
  return problem
end
local members = plain_members()
local plain = #members
for i = JOB, #ARGV, 4 do
  members[#members + 1] = ARGV[i]
end
local scores = redis.call('ZMSCORE', TIMES, unpack(members))
local waits, now = waiting(), clock()
local ended, gone, replies, done, failed, delayed = {}, {}, {}, 0, 0, {}

-- verdict returns what becomes of the job of the ith member: see ARGV.
local function verdict(i)
  if i <= plain then
    return '', ''
  end
  return unpack(ARGV, JOB + 4 * (i - plain) - 3, JOB + 4 * (i - plain) - 1)
end

for i, member in ipairs(members) do
  local delay, text, counts = verdict(i)
  local id, holds = string.sub(member, 1, 16), scores[i] -- a delayed job has another member
  replies[i] = holds and '1' or '0'
  if holds then
    ended[#ended + 1] = member
    if delay == '' then
      problem = problem or unique_away(text)
      done = done + 1
      gone[#gone + 1] = id
    else
      local _, attempt, unique, payload = read_envelope(redis.call('HGET', JOBS, id) or '')
      failed = failed + (counts == '1' and 1 or 0)
      if attempt then
        attempt = counts == '1' and math.min(attempt + 1, 65535) or attempt
        delayed[i] = envelope_of(id, attempt, unique, payload, text)
      end
    end
  end
end

if problem then
  return problem
end

redis.call('HDEL', QUEUE, 'never')
redis.call('HINCRBY', QUEUE, 'done', done) -- also by 0: a WAIT covers an earlier run only if this connection writes, too
if failed > 0 then
  redis.call('HINCRBY', QUEUE, 'failed', failed)
end
for i, member in ipairs(members) do
  local delay, text = verdict(i)
  if delayed[i] then
    delay_jobs({ delayed[i] }, now + tonumber(delay), now, waits)
  elseif replies[i] == '1' and delay == '' then
    release_unique(text, string.sub(member, 1, 16))
  end
end
if #ended > 0 then
  redis.call('ZREM', TIMES, unpack(ended))
end
if #gone > 0 then
  redis.call('HDEL', JOBS, unpack(gone))
end
if #ended > 0 and waits == 'limit' then
  ring_waiters()
end
return table.concat(replies)
