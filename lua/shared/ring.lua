-- Rings the bell. shared/bell.lua says what it is for.
--
-- requires: shared/keys

local BELL

-- ring puts a dummy into the bell, which never holds more than one. The bell is here, and the script has written before.
local function ring()
  if redis.call('RPUSH', BELL, '1') > 1 then
    redis.call('LPOP', BELL)
  end
  redis.call('PEXPIRE', BELL, IDLE_MS)
end

-- In each call:

BELL = PREFIX .. 'bell'
