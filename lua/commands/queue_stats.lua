-- Counts the jobs of a queue.
--
-- requires: shared/lists shared/length shared/take_in shared/jobs
--
-- KEYS  1 meta of the queue, 2 meta of the dead
-- ARGV  1 to 3 see shared/operation.lua; 4 the number of lists, 5 'L' or 'R': where jobs are taken
-- Reply the numbers of jobs that wait, are delayed, are leased, and are dead; the fields done, failed, dead and paused of the
--       queue; and the first 21 bytes of the next job of the list, or ''
-- Flags allow-oom
-- Cost  O(log(jobs leased and delayed)).
--
-- Safe because it changes nothing but newcomers, which it takes in.

use(1)
local list, problem = open('reading')
problem = problem or queue_away()
if problem then
  return problem
end
local head, tail, length = measure(list)
if not head then
  return tail
end
local first = false
if length > 0 then
  local left = ARGV[5] == 'L'
  first = redis.call('LINDEX', list.shards .. (left and list.first or list.last), left and 0 or -1)
end
local fields = redis.call('HMGET', QUEUE, 'done', 'failed', 'dead', 'paused')
for i, field in ipairs(fields) do
  fields[i] = tonumber(field) or 0
end
local leased, delayed = redis.call('ZCOUNT', TIMES, '-inf', '(0'), redis.call('ZCOUNT', TIMES, '(0', '+inf')
use(2)
local graves
graves, problem = open('reading')
if problem then
  return problem
end
local buried
head, tail, buried = measure(graves)
if not head then
  return tail
end
return { length, delayed, leased, buried, fields[1], fields[2], fields[3], fields[4], first and string.sub(first, 1, 21) or '' }
