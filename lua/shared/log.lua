-- The log of a sliding window: what was admitted, and when.
--
-- It is a hash, whose fields are entries with consecutive numbers. An entry is '<time in microseconds> <total before it>', and
-- ends in ' -' if it was given back. Times and totals never fall from an entry to the next, so binary searches find what
-- counts, and the work of a script does not grow with the log. The other fields are
--   first, next  the number of the oldest entry, and of the one to come
--   total        how many have been admitted since the log was begun
--   holes        the entries that were given back, see shared/holes.lua; the id is the number
--   records      see shared/counted.lua, as for the dedup records
--
-- requires: shared/holes shared/counted

local DROP_STEP = 100 -- entries that one script drops; more than it adds, so that no log keeps growing

-- open_log reads the state. It returns nil and the reply if the call has been done, or must not be done.
local function open_log()
  local state, reply = read_state('first', 'next', 'total', 'holes')
  return state and {
    first = tonumber(state[3] or nil) or 1, next = tonumber(state[4] or nil) or 1, total = tonumber(state[5] or nil) or 0,
    holes = state[6] or '',
  }, reply
end

-- entry_at returns an entry: its time, the total before it, and '-' if it was given back.
local function entry_at(number)
  local time, before, returned = string.match(redis.call('HGET', META, whole(number)), '^(%d+) (%d+) ?(%-?)$')
  return tonumber(time), tonumber(before), returned
end

-- find_entry returns the number of the first entry of which a condition holds that then holds of all later ones, or next.
local function find_entry(log, holds)
  local from, to = log.first, log.next
  while from < to do
    local middle = math.floor((from + to) / 2)
    if holds(entry_at(middle)) then
      to = middle
    else
      from = middle + 1
    end
  end
  return from
end

-- total_before returns the total before an entry, or that of the log for next.
local function total_before(log, number)
  if number == log.next then
    return log.total
  end
  local _, before = entry_at(number)
  return before
end

-- drop_entries drops the entries from one to another, which is not dropped.
local function drop_entries(from, to)
  local fields = {}
  for number = from, to - 1 do
    fields[#fields + 1] = whole(number)
  end
  if #fields > 0 then
    redis.call('HDEL', META, unpack(fields))
  end
end
