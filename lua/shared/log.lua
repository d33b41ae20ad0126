-- The log of a sliding window: what was admitted, and when.
--
-- It is a hash, whose fields are entries with consecutive numbers. An entry is '<time in microseconds> <total before it>', and
-- ends in ' -' if it was given back. Times and totals never fall from an entry to the next, so binary searches find what
-- counts, and the work of a script does not grow with the log. The other fields are
--   first, next  the number of the oldest entry, and of the one to come
--   total        how many have been admitted since the log was begun
--   holes        the entries that were given back, see shared/holes.lua; the id is the number
--   records      see shared/records.lua
--
-- requires: shared/holes

local DROP_STEP = 100 -- entries that one script drops; more than it adds, so that no log keeps growing

-- open_log reads the state.
local function open_log()
  local state = redis.call('HMGET', META, 'first', 'next', 'total', 'holes', 'records')
  return {
    first = tonumber(state[1]) or 1, next = tonumber(state[2]) or 1, total = tonumber(state[3]) or 0,
    holes = state[4] or '', records = state[5],
  }
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

-- add_entry adds an entry. It is a first write that OOM refuses.
local function add_entry(log, time, n)
  local entry = whole(time) .. ' ' .. whole(log.total)
  redis.call('HSET', META, whole(log.next), entry, 'first', whole(log.first), 'next', whole(log.next + 1),
    'total', whole(log.total + n))
  log.next, log.total = log.next + 1, log.total + n
end

-- drop_entries drops the oldest entries before one, some at a time.
local function drop_entries(log, stop)
  local fields = {}
  for number = log.first, math.min(stop, log.first + DROP_STEP) - 1 do
    fields[#fields + 1] = whole(number)
  end
  if #fields > 0 then
    redis.call('HDEL', META, unpack(fields))
    redis.call('HSET', META, 'first', whole(log.first + #fields))
  end
end
