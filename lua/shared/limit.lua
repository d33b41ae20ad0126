-- What the limiters share. Each keeps all of its state in one key, META, so that a script has all of it or none, also while
-- its slot moves. Everything goes by the server's clock, and each write sets a TTL.
--
-- requires: shared/keys shared/records

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

-- keep_until lets META expire after a time, but not before the dedup records that it may hold. records is its field of this
-- name, see shared/records.lua.
local function keep_until(time, now, records)
  local needed = tonumber(records) and tonumber(records) - now / 1000 or 0
  if records and needed < 0 then
    drop_old_records(META, now / 1000)
  end
  redis.call('PEXPIRE', META, whole(math.max(math.ceil((time - now) / 1000) + SLACK_MS, math.ceil(needed))))
end

-- refuse_nothing is a first write that changes nothing and that OOM allows, so that what follows is allowed, too.
local function refuse_nothing()
  redis.call('HDEL', META, 'never')
end

-- verdict returns the result of a limiter: 1 if the call is allowed or 0; how much more would be; the time in microseconds
-- until it is, or may be asked for again; the server's time; and what gives the tokens back.
local function verdict(allowed, remaining, wait, now, ...)
  local head = string.format('%d %.0f %.0f %.0f', allowed and 1 or 0, math.max(0, remaining), math.max(0, wait), now)
  return table.concat({ head, ... }, ' ')
end
