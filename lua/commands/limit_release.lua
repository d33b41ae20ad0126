-- Ends the lease of holders, and wakes who waits for a share.
--
-- requires: shared/holders
--
-- KEYS  1 the holders, see shared/holders.lua
-- ARGV  1 for how many milliseconds the ids can be given no share again, or 0; then the ids of up to 100 holders
-- Reply how many of them held a share
-- Flags allow-oom
-- Cost  O(ids × log shares).
--
-- Safe because it reads all it needs before the first write, PEXPIRE or ZREM, which OOM allows. It may run twice.

local now, held = microseconds(), 0
local fence, fenced = tonumber(ARGV[1]), {}
local scores = redis.call('ZMSCORE', META, ARMED, unpack(ARGV, 2))
local rings = scores[1] and bell_can_ring()
for i = 2, #ARGV do
  held = held + (holds(scores[i], now) and 1 or 0)
  fenced[#fenced + 1] = whole(-math.ceil(now / 1000) - fence)
  fenced[#fenced + 1] = ARGV[i]
end
if fence > 0 then
  stay(fence + SLACK_MS)
  redis.call('ZADD', META, unpack(fenced))
  stay(fence + SLACK_MS) -- it may be new
else
  redis.call('ZREM', META, unpack(ARGV, 2))
end
if held > 0 and rings then
  redis.call('ZREM', META, ARMED)
  ring()
end
return held
