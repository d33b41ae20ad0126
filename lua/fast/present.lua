-- Finds out with one command whether there is nothing yet of a list, or only meta, for an operation that begins the life of its
-- record anew, as the first one of a session does.
--
-- A user may have no permission for the plain key of a list that does not stand in for it: that is left out.
--
-- requires: shared/operation

local PRESENT -- how many of meta, the record and the plain key exist, if that was asked; an error if some are on another node
local NO_RECORD -- whether it is known that there is none
local NOTHING -- whether it is known that there is neither meta nor a plain key

-- In each call:

PRESENT = nil
if RECORD and RENEWS then
  PRESENT = redis.pcall('EXISTS', META, RECORD, STANDS_IN and PLAIN or RECORD)
end
NO_RECORD = PRESENT == 0
NOTHING = NO_RECORD and (STANDS_IN or not PLAIN)
