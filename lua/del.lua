-- Deletes the list.
--
-- KEYS  1 meta
-- Reply 1 if the list had elements, else 0; then 1 if shards are still to be swept, else 0
-- Cost  O(1): the pointers leave the shards at once, which are unlinked here only up to a bound.
--
-- What is left is remembered in meta, where every later operation goes on with it. HDEL comes first because a full server
-- lets it pass.

local list, problem = open()
if problem then
  return problem
end
if is_empty(list) then
  sweep(list)
  return { 0, list.lo and 1 or 0 }
end
-- An error if they are no lists, or not here. That one is missing is no reason to keep the rest.
redis.call('LLEN', PREFIX .. list.first)
redis.call('LLEN', PREFIX .. list.last)
list.lo = math.min(list.lo or list.first, list.first)
list.hi = math.max(list.hi or list.last, list.last)
list.first, list.last = list.hi + 1, list.hi
redis.call('HDEL', META, 'cap')
redis.call('HSET', META, 'first', list.first, 'last', list.last, 'lo', list.lo, 'hi', list.hi)
sweep(list)
return { 1, list.lo and 1 or 0 }
