-- Writes the state of the shard that fast/spread_begin.lua has found.
--
-- requires: fast/spread_begin

-- arm writes whether a consumer waits.
local function arm(armed)
  redis.call('HSET', META, string.sub(END, #PREFIX + 1), string.sub(STATE, 1, 2) .. (armed and 1 or 0) .. string.sub(STATE, 4))
end
