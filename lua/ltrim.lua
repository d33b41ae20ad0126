-- Keeps the elements from one index to another, both included, and drops the others, as LTRIM.
--
-- KEYS  1 meta
-- ARGV  1 to 3 see lane.lua, 4 start, 5 stop, from 0, or from the right end if negative
-- Reply 1 if shards are still to be swept, else 0
-- Cost  O(1) in the number of shards, O(capacity) within two: the pointers leave the other shards at once, which are
--       unlinked here only up to a bound.
--
-- Safe because the shards that become the ends are read before the first write, and because that write (LTRIM, or HDEL if
-- nothing is kept) cannot grow the data set, so that a full server lets it pass.

local list, problem = open()
if problem then
  return problem
end
local done, stale_operation = recall()
if stale_operation then
  return stale_operation
elseif done then
  return list.lo and 1 or 0
end
local head, tail, length = measure(list)
if not head then
  return tail
end
local start, stop = tonumber(ARGV[4]), tonumber(ARGV[5])
if start < 0 then
  start = math.max(0, start + length)
end
if stop < 0 then
  stop = stop + length
end
stop = math.min(stop, length - 1)

if length == 0 then
  touch()
  sweep(list)
elseif start > stop then
  discard(list)
else
  local first, from = locate(list, head, start)
  local last, to = locate(list, head, stop)
  for _, id in ipairs({ first, last }) do
    if redis.call('LLEN', PREFIX .. id) == 0 then
      return missing(id)
    end
  end
  redis.call('LTRIM', PREFIX .. last, 0, to)
  redis.call('LTRIM', PREFIX .. first, from, -1)
  if first > list.first then
    leave(list, list.first, first - 1)
  end
  if last < list.last then
    leave(list, last + 1, list.last)
  end
  if first > list.first or last < list.last then
    list.first, list.last = first, last
    redis.call('HSET', META, 'first', first, 'last', last, 'lo', list.lo, 'hi', list.hi)
  end
  sweep(list)
end
remember('OK')
return list.lo and 1 or 0
