-- Renews the lease of a holder.
--
-- requires: shared/holders
--
-- KEYS  1 the holders, see shared/holders.lua
-- ARGV  1 the id of the holder, 2 the lease in microseconds, 3 how long the key stays after the lease, in milliseconds
-- Reply 1 if the lease is renewed, 0 if it had ended
-- Flags allow-oom
-- Cost  O(log shares).
--
-- Safe because the first write is PEXPIRE, which OOM allows. It may run twice.

local LEASE = tonumber(ARGV[2])
local now = microseconds()
if not holds(redis.call('ZSCORE', META, ARGV[1]), now) then
  return 0
end
stay(math.ceil(LEASE / 1000) + SLACK_MS + tonumber(ARGV[3]))
redis.call('ZADD', META, whole(now + LEASE), ARGV[1])
return 1
