-- Ends the lease of holders, and wakes who waits for a share.
--
-- requires: shared/holders
--
-- KEYS  1 the holders, see shared/holders.lua
-- ARGV  the ids of up to 1,000 holders
-- Reply how many of them held a share
-- Cost  O(ids × log shares).
--
-- Safe because the first write is ZREM, which OOM allows. It may run twice.

local now = microseconds()
local held, rings = 0, bell_can_ring()
local is_armed = redis.call('ZSCORE', META, ARMED)
for _, id in ipairs(ARGV) do
  if holds(redis.call('ZSCORE', META, id), now) then
    held = held + 1
  end
end
redis.call('ZREM', META, unpack(ARGV))
if held > 0 and is_armed and rings then
  redis.call('ZREM', META, ARMED)
  ring()
end
return held
