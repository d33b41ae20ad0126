-- Admits to a sliding window. KEYS and ARGV are those of commands/limit_sliding.lua; see fast/limit_fixed.lua for why this is
-- here.
--
-- requires: shared/is_new shared/log shared/record

-- admit admits, now or later, or refuses, and adds what it admits to the log.
local function admit()
  local limit, per, n, patience = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
  local now = microseconds()
  local log = open_log()
  local place, number, _, rest = take_hole(log.holes, now, patience, n)
  if place then
    local time, before = entry_at(tonumber(number))
    redis.call('HSET', META, number, whole(time) .. ' ' .. whole(before), 'holes', rest)
    return verdict(true, 0, place - now, now, number, whole(place))
  end
  local live = find_entry(log, function(time) return time > now - per end)
  local used = log.total - total_before(log, live)
  local last = log.next > log.first and (entry_at(log.next - 1)) or now
  -- n fit once what precedes this entry has left the window. That is after all who have been admitted for later, but if the
  -- clock is set back.
  local fits = find_entry(log, function(_, before) return before >= log.total + n - limit end)
  local at = math.max(now, last)
  if fits > log.first then
    at = math.max(at, (entry_at(fits - 1)) + per)
  end
  if at - now > patience then
    refuse_nothing()
    return verdict(false, last > now and 0 or limit - used, at - now, now)
  end
  add_entry(log, at, n)
  drop_entries(log, live)
  keep_until(at + per, now, log.records)
  return verdict(true, at > now and 0 or limit - used - n, at - now, now, whole(log.next - 1), whole(at))
end

-- In each call:

if IS_NEW then
  local result = admit()
  save_record(result)
  return result
end
