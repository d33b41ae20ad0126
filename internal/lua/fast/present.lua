-- Finds out with one command whether there is nothing yet of a list, or only meta, for an operation that begins the life of its
-- record anew, as the first one of a session does.
--
-- requires: shared/operation

local PRESENT -- how many of meta, the record and the plain key exist, if that was asked; an error if some are on another node
if RECORD and RENEWS then
  PRESENT = redis.pcall('EXISTS', META, RECORD, PLAIN or RECORD)
end
local NO_RECORD = PRESENT == 0 -- whether it is known that there is none
