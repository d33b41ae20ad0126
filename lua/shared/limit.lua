-- What the limiters share. Each keeps all of its state in one key, META, so that a script has all of it or none, also while
-- its slot moves. Everything goes by the server's clock, and META has a TTL.
--
-- requires: shared/keys

local SLACK_MS = 1000 -- how much longer than needed a key stays: a script's clock may be ahead of that of its TTLs

-- microseconds returns the server's Unix time.
local function microseconds()
  local now = redis.call('TIME')
  return tonumber(now[1]) * 1000000 + tonumber(now[2])
end

-- whole formats a number as Redis reads integers.
local function whole(number)
  return string.format('%.0f', number)
end

-- verdict returns the result of a limiter: 1 if the call is allowed or 0; how much more would be; the time in microseconds
-- until it is, or may be asked for again; the server's time; and what gives the tokens back.
local function verdict(allowed, remaining, wait, now, ...)
  local head = string.format('%d %.0f %.0f %.0f', allowed and 1 or 0, math.max(0, remaining), math.max(0, wait), now)
  return table.concat({ head, ... }, ' ')
end
