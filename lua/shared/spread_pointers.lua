-- The pointers of a spread list: the field layout of its meta.
--
--   4 <parts> <capacity> <generation> <first> <last> <epoch of left> <epoch of right> <left border> <right border>
--   <next epoch> <flags>
--
-- The flags are 1 while a delete is under way, plus 2 if somebody may push: meta then does not expire, plus 4 if the delete is
-- because the list has expired. The field old has
-- '<generation> <first> <last> ' for each list that was deleted and has shards to unlink.
--
-- The field expiry is there if somebody has set one: '<Unix time in milliseconds, or 0> <stamp> <who set the last few>'. Of two
-- expiries the one with the higher stamp counts, and of two with the same stamp the one without a time: it has been found void.
--
-- Epochs, stamps and generations are microseconds of the server's clock, or one more than the last: a meta that was lost issues
-- none twice.
--
-- KEYS[1] is meta.

local META
local META_MS = 180000 -- longer than any client acts on pointers that it has read
local FORM = '^4 (%d+) (%d+) (%d+) (%S+) (%S+) (%d+) (%d+) (%S+) (%S+) (%d+) (%d)$'

-- microseconds returns the server's clock.
local function microseconds()
  local now = redis.call('TIME')
  return tonumber(now[1]) * 1000000 + tonumber(now[2])
end

-- read_pointers returns the pointers, or nil, and the field as it is.
local function read_pointers()
  local text = redis.call('HGET', META, 'layout')
  if not text then
    redis.call('EXISTS', META, META .. ':never') -- an error if meta may be on another node
  end
  local parts, cap, generation, first, last, left, right, left_border, right_border, next_epoch, flags =
    string.match(text or '', FORM)
  if not parts then
    return nil, text
  end
  flags = tonumber(flags)
  return {
    parts = parts, cap = cap, generation = tonumber(generation), ids = { tonumber(first), tonumber(last) },
    epochs = { tonumber(left), tonumber(right) }, borders = { tonumber(left_border), tonumber(right_border) },
    next = math.max(tonumber(next_epoch), microseconds()), deleting = flags % 2 == 1, used = flags % 4 > 1,
    expired = flags > 3,
  }, text
end

-- save_pointers writes the field, and returns it.
local function save_pointers(p)
  local i, e, b = p.ids, p.epochs, p.borders
  local ends = string.format('%.0f %.0f %.0f %.0f %.0f %.0f', i[1], i[2], e[1], e[2], b[1], b[2])
  local flags = (p.deleting and 1 or 0) + (p.used and 2 or 0) + (p.expired and 4 or 0)
  local text = string.format('4 %s %s %.0f %s %.0f %d', p.parts, p.cap, p.generation, ends, p.next, flags)
  redis.call('HSET', META, 'layout', text)
  return text
end

-- write_again changes nothing. A client that acts on the pointers waits until a replica has them, and WAIT waits for what its
-- connection has written. OOM may refuse it.
local function write_again(text)
  redis.pcall('HSET', META, 'layout', text)
end

-- read_expiry returns the time, or 0, the stamp, and the names of the last operations that have set one.
local function read_expiry()
  local time, stamp, by = string.match(redis.call('HGET', META, 'expiry') or '', '^(%d+) (%d+) ?(.*)$')
  return tonumber(time or 0), tonumber(stamp or 0), by or ''
end

-- save_expiry writes it.
local function save_expiry(time, stamp, by)
  redis.call('HSET', META, 'expiry', string.format('%.0f %.0f %s', time, stamp, by))
end

-- reply returns what every script on the pointers replies with.
local function reply()
  local fields = redis.call('HMGET', META, 'layout', 'old', 'expiry')
  return { fields[1], fields[2] or '', fields[3] or '' }
end

-- In each call:

META = KEYS[1]
