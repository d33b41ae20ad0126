-- Pops up to count elements from one end, as LPOP and RPOP do, for a caller that may want to wait for more.
--
-- KEYS  1 meta
-- ARGV  1 'L' or 'R', 2 count, 3 how the caller waits:
--         'no'     it does not
--         'first'  it would wait: if there are fewer than count, the list is armed
--         'woken'  its BLPOP on the bell has just ended; 4 is its release key, whose presence says to take nothing
-- Reply arrays of elements, one for each shard they came from, in the order popped; nil if the list is empty
-- Cost  O(elements popped). Three calls for one element.
--
-- Safe because every key is read before the first write, and because that write (LPOP, DEL or UNLINK) cannot grow the
-- data set, so that a full server lets it pass.
--
-- No wake-up is lost: while the list has elements and somebody is blocked on the bell, a dummy is in the bell or a woken
-- pop is about to run. A push into an armed list rings; a woken pop rings on if it leaves elements, and arms if it
-- leaves none. Any other pop leaves bell and arm as they are.

local list, problem = open()
if problem then
  return problem
end
local left = ARGV[1] == 'L'
local POP = left and 'LPOP' or 'RPOP'
local count = tonumber(ARGV[2])
local woken, waits = ARGV[3] == 'woken', ARGV[3] ~= 'no'
local released = woken and redis.pcall('EXISTS', ARGV[4]) == 1 -- an error while the slot is moving
if released then
  count = 0
end

-- Look: which shards give how many.
local step = left and 1 or -1
local near = left and list.first or list.last
local at, wanted, takes = near, count, {}
while wanted > 0 and at >= list.first and at <= list.last do
  local size = redis.call('LLEN', PREFIX .. at)
  if size == 0 then
    return missing(at)
  end
  takes[#takes + 1] = math.min(wanted, size)
  wanted = wanted - math.min(wanted, size)
  if takes[#takes] < size then
    break
  end
  at = at + step
end
local was_empty = is_empty(list)
local empties = at < list.first or at > list.last
local must_ring = woken and not empties
local must_arm = empties and (woken or (waits and wanted > 0))
if (must_ring or must_arm) and not bell_at_hand() then
  must_ring, must_arm = false, false
end

-- Write: the elements, then the pointers.
if released then
  redis.call('DEL', ARGV[4])
end
local popped = {}
for i, take in ipairs(takes) do
  popped[i] = redis.call(POP, PREFIX .. (near + (i - 1) * step), take)
end
if empties and not was_empty then
  -- Past whatever a Del left, so that new shards keep clear of it.
  list.first = list.hi and list.hi + 1 or 0
  list.last = list.first - 1
  list.armed = false
  if list.lo then
    redis.call('HSET', META, 'first', list.first, 'last', list.last)
  elseif not must_arm then
    redis.call('DEL', META)
  end
elseif at ~= near then
  redis.call('HSET', META, left and 'first' or 'last', at)
end
if must_arm then
  arm(list)
  list.armed = true
elseif must_ring then
  ring()
end
sweep(list)
return #popped > 0 and popped or false
