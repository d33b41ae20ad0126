-- Drops the result from a dedup record once the client has it, so that a large one does not stay until the record expires.
--
-- requires: shared/session
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua
-- Reply 1 if the result was dropped, 0 if the session has gone on
-- Flags allow-oom
-- Cost  O(1).
--
-- Safe because the sequence number stays: late copies of the operation still do nothing. They find an empty result, which
-- nobody reads.

if not replay() then
  return 0
end
if POPPED then
  redis.call('UNLINK', POPPED)
end
save_result('')
return 1
