-- Deletes the list, as DEL does.
--
-- requires: shared/sweep shared/discard shared/take_in shared/of_key
--
-- KEYS  1 meta
-- ARGV  the words of the command for the key if there is no list; or none
-- Reply 1 if the list had elements, else 0; then 1 if shards are still to be swept, else 0; or 'KEY' and the
--       reply of the command
-- Flags allow-oom
-- Cost  O(1): the pointers leave all shards at once, and the sweep that unlinks them is bounded.
--
-- Safe because it reads the end shards before the first write, HDEL, which OOM allows. Meta keeps the range of ids that are
-- still to be swept, and every later operation that writes continues the sweep.

local list, problem = open(nil, true)
if problem then
  return problem
end
if is_empty(list) then
  sweep(list)
  return of_key(1, true) or { 0, list.stale and 1 or 0 }
end
problem = discard(list)
if problem then
  return problem
end
if PLAIN and not rung_by(PLAIN) and type(redis.pcall('LLEN', PLAIN)) == 'number' then
  redis.pcall('UNLINK', PLAIN) -- newcomers that could not be taken in, because the slot moves
end
return { 1, list.stale and 1 or 0 }
