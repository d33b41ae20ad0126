-- Gives shares of a semaphore, or a lock, to holders.
--
-- requires: shared/holders
--
-- KEYS  1 the holders, see shared/holders.lua
-- ARGV  1 the number of shares, 2 the lease in microseconds, 3 how long the key stays after the lease, in milliseconds, 4 'yes'
--       for a fencing token, 5 'no' if the caller does not wait for what it does not get, 'wait' if it does, 'woken' if it may
--       have taken a dummy from the bell before; then the ids of up to 100 holders
-- Reply the fencing token, or 0; the microseconds until the next lease ends, or -1 if there is none; then which of the ids hold
--       a share, by their positions
-- Cost  O(ids × log shares).
--
-- An id that holds a share already is given none, but a new lease: so a call may run twice, but not after a release, see
-- shared/holders.lua. A fencing token is the server's
-- time, or one higher than the last if that is not behind it. So tokens grow even if the key is lost, as long as the clock does
-- not go back.
--
-- Who waits arms the semaphore. A call that was woken rings on if it leaves shares, and else arms again, for others that wait:
-- so while there are shares and somebody waits, a dummy is in the bell, or a call that was woken is about to run.
--
-- Safe because it reads all it needs before the first write. That is ZADD if it gives a share, which OOM refuses with nothing
-- changed; else PEXPIRE, which OOM allows, as waiting must go on.

local SHARES, LEASE, AFTER, FENCES, WAIT = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == 'yes', ARGV[5]

local now = microseconds()
local ends = whole(now + LEASE)
local held = redis.call('ZCOUNT', META, '(' .. whole(now), '+inf')
local last = redis.call('ZSCORE', META, TOKEN)
local token = FENCES and -(tonumber(last or 0)) or 0
local can_ring = WAIT ~= 'no' and bell_can_ring()

local given, added = {}, {}
for i = 6, #ARGV do
  local score = redis.call('ZSCORE', META, ARGV[i])
  local holds_already, is_fenced = holds(score, now), score and tonumber(score) < 0
  if holds_already or held < SHARES and not is_fenced then
    given[#given + 1] = i - 5
    added[#added + 1] = ends
    added[#added + 1] = ARGV[i]
    if not holds_already then
      held = held + 1
      token = FENCES and math.max(token + 1, now) or 0
    end
  end
end

if #added > 0 then
  redis.call('ZADD', META, unpack(added))
  if FENCES then
    redis.call('ZADD', META, whole(-token), TOKEN)
  end
  redis.call('ZREMRANGEBYSCORE', META, '(0', whole(now)) -- leases that have ended
  redis.call('ZREMRANGEBYSCORE', META, whole(-math.floor(now / 1000)), '(0') -- and fences
end
if #added > 0 or WAIT ~= 'no' then
  stay(math.ceil(LEASE / 1000) + SLACK_MS + AFTER)
end
if WAIT == 'woken' and held < SHARES then
  if can_ring then
    ring()
  end
elseif WAIT ~= 'no' and held >= SHARES then
  redis.call('ZADD', META, 0, ARMED)
  if can_ring then
    redis.call('DEL', BELL)
  end
end

local next_end = redis.call('ZRANGEBYSCORE', META, '(' .. whole(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return { token, next_end[2] and tonumber(next_end[2]) - now or -1, unpack(given) }
