-- Holes: what was admitted for a time to come, and given back while others waited behind it.
--
-- Those who wait behind have times of their own, which were chosen with it, and sleep until then. So the place cannot be
-- taken away, or too much could come to one moment. But who comes next, and wants as much, may have it.
--
-- The field holes of META is a text, ' <id>:<before>:<time>:<n>' for each hole: its id and what was before it, as the limiter
-- has them; the time in microseconds, and how many.
--
-- requires: shared/limit

local HOLES_MAX = 32768 -- bytes, some 600 holes. What goes beyond is not given back

-- close_hole returns what was before the hole of an id, and the holes without it; or nil.
local function close_hole(holes, id)
  local from, to = string.find(holes, ' ' .. id .. ':', 1, true)
  if from then
    local stop = string.find(holes, ' ', to, true) or #holes + 1
    return string.match(holes, '^[^:]+', to + 1), string.sub(holes, 1, from - 1) .. string.sub(holes, stop)
  end
end

-- take_hole returns the hole with the earliest time for n within patience: its time, its id and what was before it, and the
-- holes without it. It returns nil if there is none.
local function take_hole(holes, now, patience, n)
  local time, id
  for hole_id, hole_time, hole_n in string.gmatch(holes, ' ([^:]+):[^:]+:(%d+):(%d+)') do
    hole_time = tonumber(hole_time)
    if tonumber(hole_n) == n and hole_time > now and hole_time - now <= patience and (not time or hole_time < time) then
      time, id = hole_time, hole_id
    end
  end
  if time then
    return time, id, close_hole(holes, id)
  end
end

-- add_hole returns the holes with another one. If they become too many, those whose time has come go.
local function add_hole(holes, now, id, before, time, n)
  if #holes > HOLES_MAX then
    holes = string.gsub(holes, ' %S+:(%d+):%d+', function(past) return tonumber(past) <= now and '' or nil end)
  end
  return #holes > HOLES_MAX and holes or holes .. table.concat({ ' ' .. id, before, time, n }, ':')
end
