-- Finds out with one command whether there is nothing yet of a list, or only meta, for an operation that begins the life of its
-- record anew, as the first one of a session does.
--
-- A user may have no permission for the plain key of a list that does not stand in for it: that is left out.
--
-- requires: shared/operation

local PRESENT -- how many of meta, the record and the plain key exist, if that was asked; an error if some are on another node
if RECORD and RENEWS then
  PRESENT = redis.pcall('EXISTS', META, RECORD, STANDS_IN and PLAIN or RECORD)
end
local NO_RECORD = PRESENT == 0 -- whether it is known that there is none
local NOTHING = NO_RECORD and (STANDS_IN or not PLAIN) -- whether it is known that there is neither meta nor a plain key
