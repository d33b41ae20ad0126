-- Keeps the elements from one index to another, both included, and drops the others, as LTRIM does.
--
-- requires: shared/session shared/short_key shared/index shared/sweep shared/shrink shared/discard shared/take_in
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 start, 5 stop
-- Reply 1 if shards may still be to be swept, else 0
-- Flags allow-oom
-- Cost  O(1) in the number of shards, O(capacity) within two: the pointers leave the other shards at once, and the sweep that
--       unlinks them is bounded.
--
-- Safe because it reads the new end shards before the first write, and because that write (LTRIM, or HDEL if it keeps nothing)
-- cannot grow the data set: OOM allows it.

local done, failure = replay()
if failure then
  return failure
elseif done then
  return 1 -- sweep.lua finds out
end
local short = short_key()
if short then
  redis.call('LTRIM', short, ARGV[4], ARGV[5])
  save_result('OK')
  return 0
end
local list, problem = open()
if problem then
  return problem
end
local head, tail, length = measure(list)
if not head then
  return tail
end
local start, stop = clamp(tonumber(ARGV[4]), tonumber(ARGV[5]), length)

if length == 0 then
  touch()
  sweep(list)
elseif start > stop then
  problem = discard(list)
  if problem then
    return problem
  end
else
  local first, from = locate(list, head, length, start)
  local last, to = locate(list, head, length, stop)
  problem = find_between(list, first) or find_between(list, last)
  if problem then
    return problem
  end
  redis.call('LTRIM', list.shards .. last, first == last and from or 0, to)
  if first < last then
    redis.call('LTRIM', list.shards .. first, from, -1)
  end
  if first > list.first then
    queue_sweep(list, list.first, first - 1)
  end
  if last < list.last then
    queue_sweep(list, last + 1, list.last)
  end
  if first > list.first or last < list.last then
    list.first, list.last = first, last
    save_list(list)
  end
  sweep(list)
  shrink(list)
end
save_result('OK')
return list.stale and 1 or 0
