-- Ends the leases of jobs: they are done, or delayed.
--
-- requires: shared/session shared/jobs
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua; then for each job its member, see shared/jobs.lua; '' if it is done, or by how many
--       milliseconds it is delayed; and if it is done, its unique key or '', or else its envelope
-- Reply for each job '1', or '0' if it was not leased under that member any more, as one string
-- Cost  O(jobs * log(jobs leased and delayed)).
--
-- Safe because it reads every key before the first write, and because that write cannot grow the data set: OOM allows it.
--
-- The envelope of a delayed job says which attempt counts: that of the member, or the one before if it is to be tried again
-- without being counted.

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
for i = JOB, #ARGV, 3 do
  members[#members + 1] = ARGV[i]
end
local scores = redis.call('ZMSCORE', TIMES, unpack(members))
local waits = redis.call('HGET', QUEUE, 'waits') == 'limit' and not is_away(QUEUE_BELL)
local now = clock()

local ended, ids, replies, failed = {}, {}, {}, 0
for i, member in ipairs(members) do
  local holds = scores[i] and tonumber(scores[i]) < 0
  replies[i] = holds and '1' or '0'
  if holds then
    ended[#ended + 1] = member
    if ARGV[JOB + 3 * i - 2] == '' then
      ids[#ids + 1] = string.sub(member, 1, 16)
    end
  end
end
if #ended == 0 then
  touch()
else
  redis.call('ZREM', TIMES, unpack(ended))
end
if #ids > 0 then
  redis.call('HDEL', JOBS, unpack(ids))
  redis.call('HINCRBY', QUEUE, 'done', #ids)
end
for i, member in ipairs(members) do
  local delay, more = ARGV[JOB + 3 * i - 2], ARGV[JOB + 3 * i - 1]
  if replies[i] == '1' and delay ~= '' then
    local number = string.sub(more, 20, 21)
    failed = failed + (number == string.sub(member, 17, 18) and 1 or 0)
    delay_jobs({ string.sub(member, 1, 16) .. number }, { more }, now + tonumber(delay), now)
  elseif replies[i] == '1' then
    release_unique(more, string.sub(member, 1, 16))
  end
end
if failed > 0 then
  redis.call('HINCRBY', QUEUE, 'failed', failed)
end
if #ended > 0 and waits and redis.call('HEXISTS', QUEUE, 'waits') == 1 then
  ring_waiters()
end
local result = table.concat(replies)
save_result(result)
return result
