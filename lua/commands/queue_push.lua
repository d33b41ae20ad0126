-- Pushes jobs that are due later, or are not to be pushed if there is another with the same unique key.
--
-- requires: shared/session shared/length shared/sweep shared/put shared/carve shared/take_in shared/unique
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 'L' or 'R', 5 the capacity if this push creates the list, 6 '' if the jobs are due
--       now, 'in' or 'at', and 7 in how many milliseconds, or at which Unix time in milliseconds; 8 a unique key or '', and 9
--       for how many milliseconds; 10… the envelopes
-- Reply OK, or '=' and the id of the job that has the unique key
-- Cost  O(jobs * log(jobs leased and delayed)).
--
-- Safe because it reads every key before the first write, and because that write may grow the data set: OOM refuses it with
-- nothing changed.

local VALUES = 10

local done, failure = replay()
if done or failure then
  return done or failure
end
local left, due, unique = ARGV[4] == 'L', tonumber(ARGV[7]), ARGV[8] ~= '' and QUEUE .. ':unique:' .. ARGV[8]
local problem = queue_away(unique)
if problem then
  return problem
end
local other = unique and redis.call('GET', unique)
if other then
  touch()
  save_result('=' .. other)
  return '=' .. other
end
local waits = ARGV[6] ~= '' and waiting()
local list, room, plan
local head, tail
if ARGV[6] == '' then
  list, problem = open('growing', false, pushed_at(left))
  if problem then
    return problem
  end
  head, tail = measure(list)
  if not head then
    return tail
  end
  room, plan = plan_put(list, left, left and head or tail, #ARGV - VALUES + 1, tonumber(ARGV[5]), #ARGV[VALUES])
  if not room then
    return plan
  end
end

if unique then
  redis.call('SET', unique, string.sub(ARGV[VALUES], 4, 19), 'PX', ARGV[9])
end
if list then
  put_planned(list, left, room, plan, ARGV, VALUES)
  if room == math.huge then
    carve_at_times(list, left, left and head or tail, #ARGV - VALUES + 1)
  end
  sweep(list)
else
  local envelopes = {}
  for i = VALUES, #ARGV do
    envelopes[#envelopes + 1] = ARGV[i]
  end
  local now = clock()
  delay_jobs(envelopes, ARGV[6] == 'in' and now + due or due, now, waits)
end
save_result('OK')
return 'OK'
