-- Unlinks some more of the shards that a Del or LTrim left.
--
-- KEYS  1 meta
-- Reply 1 if there is more to do, else 0
-- Cost  O(1): at most SWEEP_STEP shards.

local list, problem = open()
if problem then
  return problem
end
sweep(list)
return list.lo and 1 or 0
