-- The bell wakes blocked consumers. A consumer that finds too few elements arms the list, and a push into an armed list rings.
--
-- requires: shared/list shared/ring

-- bell_is_here tells, before the first write, whether the bell can be rung. While the slot moves, a missing bell may be on the
-- other node, and a new one here would stop the move. It is safe not to ring then: no consumer can start to wait, as BLPOP
-- fails too, and one that already waits returns when the slot has moved or its BLPOP times out.
local function bell_is_here()
  if is_away(BELL) then
    return false
  end
  redis.call('LLEN', BELL) -- an error if it is no list
  return true
end
