-- Returns the time at which the list expires, for TTL and its variants.
--
-- requires: shared/list shared/take_in shared/of_key
--
-- KEYS  1 meta
-- ARGV  the words of the command for the key if there is no list; or none
-- Reply the Unix time in milliseconds, -1 if the list never expires, or -2 if there is none; then the server's time; or 'KEY'
--       and the reply of the command
-- Flags allow-oom
-- Cost  O(1).

local LATEST = 2 ^ 63 - 1024 -- the greatest number of a script's that is one of the client's, too

local list, problem = open('reading', true)
if problem then
  return problem
end
if is_empty(list) then
  return of_key(1, false) or { '-2', 0 }
end
if type(list.shards) == 'table' then -- the plain list says it
  local left, now = redis.call('PTTL', list.shards .. list.first), clock()
  return { left < 0 and '-1' or string.format('%.0f', math.min(now + left, LATEST)), now }
end
if not list.expires then
  return { '-1', 0 }
end
return { redis.call('HGET', META, 'expires'), list.now }
