-- Unlinks some of the shards that DEL or LTRIM left.
--
-- requires: shared/sweep
--
-- KEYS  1 meta
-- ARGV  1 how many shards it may look at
-- Reply 1 if there is more to do, else 0; also 0 if the slot moves and nothing can be done now
-- Flags allow-oom
-- Cost  O(1): at most that many shards.

PLAIN = nil -- whatever is there, shards are swept
local list, problem = open()
if problem then
  return problem
end
return sweep(list, tonumber(ARGV[1])) and 1 or 0
