-- Replaces the element at an index, as LSET.
--
-- KEYS  1 meta
-- ARGV  1 to 3 see lane.lua, 4 the index, from 0, or from the right end if negative, 5 the value
-- Reply OK, or an error that left everything as it was
-- Cost  O(1) in the number of shards, O(capacity) within one.
--
-- Safe because the shard is read before LSET, the first write, which a full server refuses.

local list, problem = open('growing')
if problem then
  return problem
end
local done, stale_operation = recall()
if done or stale_operation then
  return done and redis.status_reply(done) or stale_operation
end
local head, tail, length = measure(list)
if not head then
  return tail
end
if length == 0 then
  return refuse('ERR no such key')
end
local index = tonumber(ARGV[4])
if index < 0 then
  index = index + length
end
if index < 0 or index >= length then
  return refuse('ERR index out of range')
end
local id, offset = locate(list, head, index)
if redis.call('LLEN', PREFIX .. id) == 0 then
  return missing(id)
end
redis.call('LSET', PREFIX .. id, offset, ARGV[5])
sweep(list)
remember('OK')
return redis.status_reply('OK')
