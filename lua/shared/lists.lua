-- Lets a script work on several lists.
--
-- KEYS  the meta of each list; their plain keys are optional, see beside.lua
-- ARGV  1 to 3 see shared/operation.lua, 4 the number of lists
--
-- The dedup record is next to the first list.
--
-- requires: shared/list shared/bell

local LISTS = tonumber(ARGV[4])

-- use selects the i-th list. The helpers work on the list that was selected last.
local function use(i)
  META = KEYS[i]
  PREFIX = string.sub(META, 1, -5)
  BELL = PREFIX .. 'bell'
  if KEYS.plain then
    PLAIN, BESIDE = KEYS.plain[i], KEYS.how[i]
  end
  AT_ONCE = BESIDE == '*' or BESIDE == '_'
  WATCHES = BESIDE == '*' or BESIDE == '+' or BESIDE == '^'
  STANDS_IN = WATCHES or BESIDE == '-' or BESIDE == '_'
end
