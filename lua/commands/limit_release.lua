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

local now = microseconds()
local held, rings = 0, bell_can_ring()
local is_armed = redis.call('ZSCORE', META, ARMED)
local fence, fenced = tonumber(ARGV[1]), {}
for i = 2, #ARGV do
  if holds(redis.call('ZSCORE', META, ARGV[i]), now) then
    held = held + 1
  end
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
if held > 0 and is_armed and rings then
  redis.call('ZREM', META, ARMED)
  ring()
end
return held
