-- Inserts a value before or after the leftmost element that equals a pivot, as LINSERT does.
--
-- requires: shared/session shared/short_key shared/length shared/sweep shared/put shared/take_in shared/searched
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 'before' or 'after' in any case, 5 the pivot, 6 the value, 7 the capacity if the
--       list outgrows its key, 8 see shared/searched.lua
-- Reply the length of the list, -1 if there is no pivot, or 0 if there is no list; or MORE: steps must come before. An error
--       changes nothing
-- Cost  O(elements up to the pivot), two calls a shard; then three calls for each shard from there to the nearer end.
--
-- The shard of the pivot is then one over its capacity. It moves an element to its neighbour, and so on to the nearer end.
--
-- Safe because it reads every shard on the way before the first write, and because that write (LINSERT) may grow the data
-- set: OOM refuses it with nothing changed. No shard is without elements in between: while its slot moves, a deleted key cannot
-- be created again.

local done, failure = replay()
if done or failure then
  return tonumber(done) or failure or MORE
end
local where, pivot, value = string.lower(ARGV[4]), ARGV[5], ARGV[6]
local knows = where == 'before' or where == 'after'
local short, count = short_key()
local cap = tonumber(ARGV[7])
if short and knows and count < (cap > 0 and cap or capacity_for(#value, cap)) then
  local reply = redis.call('LINSERT', short, where, pivot, value)
  save_result(reply)
  return reply
end
local list, problem = open('growing')
if problem then
  return problem
end
if not knows then
  return save_error('ERR syntax error')
end
local head, tail, length = measure(list)
if not head then
  return tail
end

-- Read: where the pivot is, and the shards that move an element.
local size, found
local id = list.first
problem = begin_search(list, ARGV[8])
while not problem and id <= list.last and not found do
  if known_at(id) ~= '' then
    size, problem = shard_length(list, id)
    local offsets = size and find_in(list, id, size, pivot, 1, 1, size)
    problem = problem or not offsets and MORE or nil
    found = offsets and offsets[1]
  end
  id = found and id or id + 1
end
if problem == MORE then
  save_result('MORE')
end
if problem then
  return problem
end
if id > list.last then
  local result = length == 0 and 0 or -1
  end_search(list)
  sweep(list)
  save_result(result)
  return result
end
local left = id - list.first < list.last - id
local step, stop = left and -1 or 1, left and list.first or list.last
problem = shard_lengths(list, id, stop, step, {})
if problem then
  return problem
end
local room, plan = plan_put(list, left, left and head or tail, 1, cap, #value)
if not room then
  return plan
end
if plan then
  stop = stop + step
end

-- Write: the value, the elements that move, then the pointers.
redis.call('LINSERT', list.shards .. id, where, pivot, value)
for from = id, stop - step, step do
  local element = redis.call(left and 'LPOP' or 'RPOP', list.shards .. from)
  redis.call(left and 'RPUSH' or 'LPUSH', list.shards .. (from + step), element)
end
save_searches(list, math.min(id, stop), math.max(id, stop))
end_search(list)
if plan then
  claim_shard(list, stop, plan[1], not left, plan.ttl)
  list[left and 'first' or 'last'] = stop
  save_list(list)
end
sweep(list)
save_result(length + 1)
return length + 1
