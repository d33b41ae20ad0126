-- Finds out with one command which keys of a list exist, for an operation that begins the life of its record anew, as the first
-- one of a session does, or that has to know of the plain key. A number says that none of them is on another node.
--
-- A user may have no permission for the plain key of a list that does not stand in for it: that is left out.
--
-- requires: shared/operation shared/known

-- In each call:

if RECORD and (RENEWS or WATCHES) then
  PRESENT = redis.pcall('EXISTS', META, RECORD, STANDS_IN and PLAIN or PREFIX .. 'never')
end
NO_RECORD = PRESENT == 0
NOTHING = NO_RECORD and (STANDS_IN or not PLAIN)
