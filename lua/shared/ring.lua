-- Rings the bell. shared/bell.lua says what it is for.
--
-- requires: shared/keys shared/publish

local BELL

-- ring puts a dummy into the bell, which never holds more than one, and tells those who have subscribed to it. The bell is that
-- of the list that is selected, or another. It is here, and the script has written before.
local function ring(at)
  at = at or BELL
  if redis.call('RPUSH', at, '1') > 1 then
    redis.call('LPOP', at)
  end
  redis.call('PEXPIRE', at, IDLE_MS)
  publish(at)
end

-- In each call:

BELL = PREFIX .. 'bell'
