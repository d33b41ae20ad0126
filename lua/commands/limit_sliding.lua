-- Admits up to a number of calls in any span of time of one length. It keeps a log of what it has admitted, and so is exact.
--
-- requires: shared/log
--
-- KEYS  1 the log, see shared/log.lua
-- ARGV  1 to 3 see shared/operation.lua, 4 the limit, 5 the length of the span in microseconds, 6 how many to admit, 7 how
--       much later than now, in microseconds
-- Reply see verdict in shared/limit.lua; what gives it back is the number and the time of the entry
-- Cost  O(log limit), and up to 100 old entries that it drops.
--
-- Safe because it reads the record and the log before the first write. That is HSET if it admits, which OOM refuses with
-- nothing changed; a refusal writes its record only, and OOM allows it.

local log, reply = open_log()
if not log then
  return reply
end
local limit, per, n, patience = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local now = microseconds()
local place, number, _, rest = take_hole(log.holes, now, patience, n)
if place then
  local time, before = entry_at(tonumber(number))
  local result = verdict(true, 0, place - now, now, number, whole(place))
  return save_state(result, time + per, now, number, whole(time) .. ' ' .. whole(before), 'holes', rest)
end
local live = find_entry(log, function(time) return time > now - per end)
local used = log.total - total_before(log, live)
local last = log.next > log.first and (entry_at(log.next - 1)) or now
-- n fit once what precedes this entry has left the window. That is after all who have been admitted for later, but if the clock
-- is set back.
local fits = find_entry(log, function(_, before) return before >= log.total + n - limit end)
local at = math.max(now, last)
if fits > log.first then
  at = math.max(at, (entry_at(fits - 1)) + per)
end
if at - now > patience then
  write_nothing()
  return save_state(verdict(false, last > now and 0 or limit - used, at - now, now), now, now)
end
local dropped = math.min(live, log.first + DROP_STEP)
local result = verdict(true, at > now and 0 or limit - used - n, at - now, now, whole(log.next), whole(at))
save_state(result, at + per, now, whole(log.next), whole(at) .. ' ' .. whole(log.total), 'first', whole(dropped),
  'next', whole(log.next + 1), 'total', whole(log.total + n))
drop_entries(log.first, dropped)
return result
