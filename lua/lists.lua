-- What operations on several lists share. This file stands between lane.lua and the script.
--
-- KEYS  the meta of each list; behind them, if any, the keys that the lists stand in for, in the same order
-- ARGV  1 to 3 see lane.lua, 4 the number of lists
--
-- The record of the lane stands beside the first list.

local LISTS = tonumber(ARGV[4])

-- use turns to the i-th list: the helpers of list.lua work on the list that was turned to last.
local function use(i)
  META = KEYS[i]
  PREFIX = string.sub(META, 1, -5)
  BELL = PREFIX .. 'bell'
  PLAIN = KEYS[LISTS + i]
end
