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
-- Who waits for a share arms the semaphore. A call that was woken rings on if it leaves shares, and else arms again, for others
-- that wait: so while there are shares and somebody waits, a dummy is in the bell, or a call that was woken is about to run.
--
-- Safe because it reads all it needs before the first write. That is ZADD if it gives a share, which OOM refuses with nothing
-- changed; else PEXPIRE, which OOM allows, as waiting must go on.

local SHARES, LEASE, AFTER, FENCES, WAIT = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == 'yes', ARGV[5]

local now = microseconds()
local ends = now + LEASE
local h = open_holders(now)
local token = FENCES and -(tonumber(h.token or 0)) or 0

local given, added = {}, {}
for i = 6, #ARGV do
  local score = score_of(h, ARGV[i])
  local holds_already, is_fenced = holds(score, now), score and tonumber(score) < 0
  if holds_already or h.held < SHARES and not is_fenced then
    given[#given + 1] = i - 5
    added[#added + 1] = whole(ends)
    added[#added + 1] = ARGV[i]
    if not holds_already then
      h.held = h.held + 1
      token = FENCES and math.max(token + 1, now) or 0
    end
  end
end

local is_free = h.held < SHARES
local rings = WAIT == 'woken' and is_free
local arms = not is_free and (WAIT == 'woken' or WAIT == 'wait' and #given < #ARGV - 5)
local can_ring = (rings or arms) and bell_can_ring()

if #added > 0 then
  if FENCES then
    added[#added + 1] = whole(-token)
    added[#added + 1] = TOKEN
  end
  redis.call('ZADD', META, unpack(added))
  if h.has_old then
    redis.call('ZREMRANGEBYSCORE', META, '(0', whole(now)) -- leases that have ended
    redis.call('ZREMRANGEBYSCORE', META, whole(-math.floor(now / 1000)), '(0') -- and fences
  end
end
if #added > 0 or arms then
  local stays = math.ceil((math.max(h.needed, ends) - now) / 1000) + SLACK_MS + AFTER
  redis.call('PEXPIRE', META, whole(math.max(stays, h.ttl or 0)))
end
if arms then
  redis.call('ZADD', META, 0, ARMED)
end
if can_ring and rings then
  ring()
elseif can_ring then
  redis.call('DEL', BELL)
end

local next_end = #added > 0 and math.min(h.next_end or ends, ends) or h.next_end
return { token, next_end and next_end - now or -1, unpack(given) }
