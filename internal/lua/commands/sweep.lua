-- Unlinks some of the shards that DEL or LTRIM left.
--
-- requires: shared/sweep
--
-- KEYS  1 meta
-- ARGV  none
-- Reply 1 if there is more to do, else 0; also 0 if the slot moves and nothing can be done now
-- Cost  O(1): at most SWEEP_STEP shards.

local list, problem = open()
if problem then
  return problem
end
return sweep(list) and 1 or 0
