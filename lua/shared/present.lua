-- Finds out with one command which keys of a list exist. A number says that none of them is on another node.
--
-- requires: shared/operation shared/known

-- In each call:

if RECORD and PLAIN then
  PRESENT = redis.pcall('EXISTS', META, RECORD, PLAIN)
elseif RECORD and RENEWS then
  PRESENT = redis.pcall('EXISTS', META, RECORD)
elseif PLAIN and not SEQUENCE then
  OTHERS = redis.pcall('EXISTS', META, PLAIN)
  OTHERS = type(OTHERS) == 'number' and OTHERS or nil
end
NOTHING = PRESENT == 0 or OTHERS == 0
NO_RECORD = PRESENT == 0
