-- When the list expires, for TTL and its like.
--
-- KEYS  1 meta
-- Reply the Unix time in milliseconds, -1 if it never expires, -2 if there is no list; and the server's own time
-- Cost  O(1).

local list, problem = open('reading')
if problem then
  return problem
end
if is_empty(list) then
  return { '-2', 0 }
end
if not list.expires then
  return { '-1', 0 }
end
return { redis.call('HGET', META, 'expires'), list.now }
