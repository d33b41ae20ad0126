-- Pops up to count elements from one end, as LPOP and RPOP do, for a caller that may want to wait for more.
--
-- KEYS  1 meta
-- ARGV  1 to 3 see lane.lua, 4 'L' or 'R', 5 count; with 0, the operation counts as done, and earlier copies of it can do
--       nothing any more; 6 how the caller waits:
--         'no'     it does not
--         'first'  it would wait: if there are fewer than count, the list is armed
--         'woken'  its BLPOP on the bell has just ended; 7 is its release key, whose presence says to take nothing
-- Reply 1 if the operation had been done before, else 0; then arrays of elements, one for each shard they came from, in
--       the order popped
-- Cost  O(elements popped). Three calls for one element, and its record two.
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
local function join(parts, separator)
  local chunks = {}
  for i = 1, #parts, UNPACK_MAX do
    chunks[#chunks + 1] = table.concat(parts, separator, i, math.min(#parts, i + UNPACK_MAX - 1))
  end
  return table.concat(chunks, separator)
end

-- The record of a pop is the lengths of its elements, then the elements.
local function pack(shards)
  if #shards == 2 and #shards[2] == 1 then
    return #shards[2][1] .. ';' .. shards[2][1]
  end
  local sizes, elements = {}, {}
  for i = 2, #shards do
    for _, element in ipairs(shards[i]) do
      sizes[#sizes + 1] = #element
      elements[#elements + 1] = element
    end
  end
  return join(sizes, ',') .. ';' .. join(elements, '')
end

local function unpack_record(record)
  local at = string.find(record, ';', 1, true) + 1
  local elements = {}
  for size in string.gmatch(string.sub(record, 1, at - 2), '%d+') do
    elements[#elements + 1] = string.sub(record, at, at + size - 1)
    at = at + size
  end
  return { 1, elements }
end

local done, stale_operation = recall()
if done or stale_operation then
  return done and unpack_record(done) or stale_operation
end
local left = ARGV[4] == 'L'
local POP = left and 'LPOP' or 'RPOP'
local count = tonumber(ARGV[5])
local woken, waits = ARGV[6] == 'woken', ARGV[6] ~= 'no'
local released = false
if woken then
  local seen = redis.pcall('EXISTS', ARGV[7])
  released = not is_moving(seen) and seen == 1
end
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
  redis.call('DEL', ARGV[7])
end
local popped = { 0 }
for i, take in ipairs(takes) do
  popped[i + 1] = redis.call(POP, PREFIX .. (near + (i - 1) * step), take)
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
if #popped == 1 then
  touch()
end
if RECORD then
  remember(pack(popped))
end
return popped
