-- Reads the pointers, before the record: where there is only meta, there is no record to read.
--
-- requires: shared/present shared/pointers

-- In each call:

WAS_READ = not FIELD
if WAS_READ and not NOTHING then
  WRITTEN = redis.pcall('HGET', META, 'layout') or nil
end
if PRESENT == 1 and type(WRITTEN) == 'string' then -- there is only meta
  NO_RECORD, NO_PLAIN = true, PLAIN ~= nil
elseif OTHERS == 1 and type(WRITTEN) == 'string' then
  NO_PLAIN = true
end
