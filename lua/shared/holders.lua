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
local AT_ONCE_MOST = 16 -- members that are read at once

-- bell_can_ring tells, before the first write, whether the bell may be written: while the slot moves, a missing bell may be on
-- the other node, and a new one here would stop the move. Who waits then finds out when its BLPOP ends.
local function bell_can_ring()
  return type(redis.pcall('EXISTS', META, BELL)) == 'number'
end

-- holds tells whether a holder's lease goes on. The score is a string, or nothing.
local function holds(score, now)
  return score and tonumber(score) > now
end

-- open_holders reads the state: the number of holders, the fencing token, the time at which the next lease ends, or nil; and
-- whether there are members whose time is over. If there are few members, scores has them, and needed is the time until which
-- they need the key; else ttl is how many milliseconds it has left.
local function open_holders(now)
  local few = redis.call('ZRANGE', META, 0, AT_ONCE_MOST - 1, 'WITHSCORES')
  if #few == 2 * AT_ONCE_MOST then
    local next_end = redis.call('ZRANGEBYSCORE', META, '(' .. whole(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    return {
      held = redis.call('ZCOUNT', META, '(' .. whole(now), '+inf'), token = redis.call('ZSCORE', META, TOKEN),
      next_end = tonumber(next_end[2]), needed = now, ttl = redis.call('PTTL', META), has_old = true,
    }
  end
  local h = { scores = {}, held = 0, needed = now, has_old = false }
  for i = 1, #few, 2 do
    local member, score = few[i], tonumber(few[i + 1])
    h.scores[member] = few[i + 1]
    if member == TOKEN then
      h.token = score
    elseif score > now then
      h.held, h.next_end, h.needed = h.held + 1, h.next_end or score, score
    elseif score > 0 or -score * 1000 <= now and score < 0 then
      h.has_old = true
    elseif score < 0 then
      h.needed = math.max(h.needed, -score * 1000)
    end
  end
  return h
end

-- score_of returns the score of a member, as holds reads it.
local function score_of(h, member)
  if h.scores then
    return h.scores[member]
  end
  return redis.call('ZSCORE', META, member)
end

-- stay keeps the key for as long as any lease, and the fencing token. OOM allows it as a first write.
local function stay(milliseconds)
  redis.call('PEXPIRE', META, whole(math.max(redis.call('PTTL', META), milliseconds)))
end
