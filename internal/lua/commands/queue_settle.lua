-- Ends the leases of jobs: they are done, or delayed.
--
-- requires: fast/settle shared/session shared/jobs
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua; then four for each job: its member, see shared/jobs.lua; '' if it is done, or by how
--       many milliseconds it is delayed; its unique key if it is done, or why it failed; '1' if the attempt counts
-- Reply for each job '1', or '0' if it was not leased under that member any more, as one string
-- Cost  O(jobs * log(jobs leased and delayed)).
--
-- Safe because it reads every key before the first write, and because that write changes nothing: OOM allows it. It adds before
-- it removes: while the slot moves, a key that has become empty cannot be created again.

local JOB = 4

local done, failure = replay()
if done or failure then
  return done or failure
end
local problem = queue_away()
if problem then
  return problem
end
local members = {}
for i = JOB, #ARGV, 4 do
  members[#members + 1] = ARGV[i]
end
local scores = redis.call('ZMSCORE', TIMES, unpack(members))
local waits, now = waiting(), clock()
local ended, gone, replies, done_jobs, failed, delayed = {}, {}, {}, 0, 0, {}
for i, member in ipairs(members) do
  local delay, text, counts = unpack(ARGV, JOB + 4 * i - 3, JOB + 4 * i - 1)
  local id, holds = string.sub(member, 1, 16), scores[i] and tonumber(scores[i]) < 0
  replies[i] = holds and '1' or '0'
  if holds then
    ended[#ended + 1] = member
    if delay == '' then
      problem = problem or unique_away(text)
      done_jobs = done_jobs + 1
      gone[#gone + 1] = id
    else
      local _, attempt, unique, payload = read_envelope(redis.call('HGET', JOBS, id) or '')
      failed = failed + (counts == '1' and 1 or 0)
      if attempt then
        attempt = counts == '1' and attempt or math.max(0, attempt - 1)
        delayed[i] = envelope_of(id, attempt, unique, payload, text)
      end
    end
  end
end

if problem then
  return problem
end

if #ended == 0 then
  touch()
else
  redis.call('HDEL', QUEUE, 'never')
end
if done_jobs > 0 then
  redis.call('HINCRBY', QUEUE, 'done', done_jobs)
end
if failed > 0 then
  redis.call('HINCRBY', QUEUE, 'failed', failed)
end
for i, member in ipairs(members) do
  local delay, text = unpack(ARGV, JOB + 4 * i - 3, JOB + 4 * i - 2)
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
local result = table.concat(replies)
save_result(result)
return result
