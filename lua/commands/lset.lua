-- Replaces the element at an index, as LSET does.
--
-- requires: shared/session shared/short_key shared/index shared/sweep shared/take_in
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 the index, 5 the value
-- Reply OK. An error changes nothing
-- Cost  O(1) in the number of shards, O(capacity) within one.
--
-- Safe because it reads the shard before the first write, LSET, which OOM refuses.

local done, failure = replay()
if done or failure then
  return done and redis.status_reply(done) or failure
end
local short = short_key()
if short then
  local reply = redis.pcall('LSET', short, ARGV[4], ARGV[5])
  if reply.err then
    return save_error('ERR index out of range')
  end
  save_result('OK')
  return reply
end
local list, problem = open('growing')
if problem then
  return problem
end
local head, tail, length = measure(list)
if not head then
  return tail
end
if length == 0 then
  return save_error('ERR no such key')
end
local id, offset = locate(list, head, length, tonumber(ARGV[4]))
if not id then
  return save_error('ERR index out of range')
end
problem = find_between(list, id)
if problem then
  return problem
end

redis.call('LSET', list.shards .. id, offset, ARGV[5])
if id ~= list.first and id ~= list.last then
  save_searches(list, id, id)
  save_list(list) -- to watch a list is to watch meta and the ends
end
sweep(list)
save_result('OK')
return redis.status_reply('OK')
