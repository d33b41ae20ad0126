-- The holders of a semaphore or a lock.
--
-- They are a sorted set: the score of a holder is the time in microseconds at which its lease ends, so those with a score
-- beyond now hold a share. Members with other scores are no holders:
--   armed  0: somebody waits, and a release must ring the bell
--   <id>   minus a Unix time in milliseconds: until then, the id can be given no share. It was released by a client that had
--          lost a reply, so a copy of its acquisition may still be on its way
--   token  minus the last fencing token of a lock, which is a Unix time in microseconds, and so is below all others
--
-- requires: shared/limit shared/ring

local ARMED, TOKEN = 'armed', 'token'

-- bell_can_ring tells, before the first write, whether the bell may be written: while the slot moves, a missing bell may be on
-- the other node, and a new one here would stop the move. Who waits then finds out when its BLPOP ends.
local function bell_can_ring()
  return type(redis.pcall('EXISTS', META, BELL)) == 'number'
end

-- holds tells whether a holder's lease goes on. The score is a string, or false.
local function holds(score, now)
  return score and tonumber(score) > now
end

-- stay keeps the key for as long as any lease, and the fencing token. OOM allows it as a first write.
local function stay(milliseconds)
  redis.call('PEXPIRE', META, whole(math.max(redis.call('PTTL', META), milliseconds)))
end
