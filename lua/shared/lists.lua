-- Lets a script work on several lists.
--
-- KEYS  the meta of each list; for plain keys, see shared/keys.lua
-- ARGV  1 to 3 see shared/operation.lua, 4 the number of lists
--
-- The dedup record is next to the first list.
--
-- requires: shared/list shared/bell

local LISTS

-- use selects the i-th list. The helpers work on the list that was selected last.
local function use(i)
  META = KEYS[i]
  PREFIX = string.sub(META, 1, -5)
  BELL = PREFIX .. 'bell'
  if KEYS.words then
    stand_beside(KEYS.words[i])
  end
end

-- In each call:

LISTS = tonumber(ARGV[4])
