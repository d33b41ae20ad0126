-- Reads the pointers, before the record: where there is only meta, there is no record to read.
--
-- requires: fast/present shared/pointers

local WRITTEN -- the field that holds the pointers
local ONLY_META

-- In each call:

WRITTEN = nil
if PRESENT ~= 0 and not FIELD then
  WRITTEN = redis.pcall('HGET', META, 'layout') or nil
end
ONLY_META = PRESENT == 1 and type(WRITTEN) == 'string'
NO_RECORD = NO_RECORD or ONLY_META
