-- Counts the members of a day, each once, up to a number of them.
--
-- requires: shared/limit
--
-- KEYS  1 the day: a hash with a field for each member, which holds the id of the call that added it
-- ARGV  1 and 2 when the day begins and ends, in microseconds, 3 the most members; and 4 a member to add, 5 the id of the call
-- Reply the server's time in microseconds, and if it is not within the day, nothing else; otherwise the number of members, and
--       whether the member is there: 'new' if this call has added it, 'old', or 'none'
-- Cost  O(1).
--
-- A call that is sent again finds its own id, and replies as the first time. A call of another day changes nothing: the client
-- asks again with the day of the server's time.
--
-- Safe because the first write is HSET, which OOM refuses with nothing changed.

local START, STOP, MOST, MEMBER, ID = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local LINGER = 3600 * 1000000 -- how much longer than its day the key stays: the clock may be set back

local now = microseconds()
if now < START or now >= STOP then
  return { now }
end
local count = redis.call('HLEN', META)
local added_by = MEMBER and redis.call('HGET', META, MEMBER)
if added_by then
  return { now, count, added_by == ID and 'new' or 'old' }
elseif not MEMBER or count >= MOST then
  return { now, count, 'none' }
end
redis.call('HSET', META, MEMBER, ID)
redis.call('PEXPIRE', META, whole(math.ceil((STOP + LINGER - now) / 1000)))
return { now, count + 1, 'new' }
