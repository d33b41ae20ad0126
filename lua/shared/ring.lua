-- Rings the bell. shared/bell.lua says what it is for.
--
-- requires: shared/keys shared/publish

local BELL

-- ring puts a dummy into the bell, which never holds more than one, and tells those who have subscribed to it. The bell is that
-- of the list that is selected, or another. It is here, and the script has written before.
local function ring(bell)
  bell = bell or BELL
  if redis.call('RPUSH', bell, '1') > 1 then
    redis.call('LPOP', bell)
  end
  redis.call('PEXPIRE', bell, IDLE_MS)
  publish(bell)
end

-- In each call:

BELL = PREFIX .. 'bell'
