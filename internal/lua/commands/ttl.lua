-- Returns the time at which the list expires, for TTL and its variants.
--
-- requires: shared/list shared/take_over
--
-- KEYS  1 meta
-- ARGV  none
-- Reply the Unix time in milliseconds, -1 if the list never expires, or -2 if there is none; then the server's time
-- Cost  O(1).

local list, problem = open('reading', true)
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
