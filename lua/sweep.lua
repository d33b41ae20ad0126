-- Unlinks some more of the shards that a Del or LTrim left.
--
-- KEYS  1 meta
-- Reply 1 if there is more to do, else 0, also where the slot is moving and nothing can be done now
-- Cost  O(1): at most SWEEP_STEP shards.

local list, problem = open()
if problem then
  return problem
end
local from = list.lo
sweep(list)
return list.lo and list.lo > from and 1 or 0
