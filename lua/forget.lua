-- Drops the result from a lane's record, once the client has it, so that no large one stays until it expires.
--
-- KEYS  1 meta
-- ARGV  see lane.lua
-- Reply 1 if it was dropped, 0 if the lane has gone on
-- Cost  O(1).
--
-- The number stays, so that late copies of the operation still do nothing. They find an empty result, which nobody reads.

if not recall() then
  return 0
end
redis.call('UNLINK', POPPED)
remember('')
return 1
