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
-- Cost  O(elements popped).
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
local done, stale_operation = recall()
if done == '@' then
  return { 1, redis.call('LRANGE', POPPED, 0, -1) }
elseif done then
  return { 1, done ~= '' and { string.sub(done, 2) } or nil }
elseif stale_operation then
  return stale_operation
end
local left = ARGV[4] == 'L'
local POP = left and 'LPOP' or 'RPOP'
local count = tonumber(ARGV[5])
local woken, waits = ARGV[6] == 'woken', ARGV[6] ~= 'no'
local released = woken and is_released(ARGV[7])
if released then
  count = 0
end

-- The record of a pop is empty, '=' and one element, or '@' for the elements in POPPED. Those are pushed and the older ones
-- trimmed: joining many elements in Lua would cost far more than popping them.
local function remember_popped(shards, total)
  if total == 0 then
    touch()
    remember('')
  elseif total == 1 then
    remember('=' .. shards[2][1])
  elseif RECORD then
    for i = 2, #shards do
      push_values('RPUSH', POPPED, shards[i], 1, #shards[i])
    end
    redis.call('LTRIM', POPPED, -total, -1)
    redis.call('PEXPIRE', POPPED, ARGV[3])
    remember('@')
  end
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
local total = count - wanted
if RECORD and total > 1 then
  if is_moving(redis.pcall('EXISTS', META, POPPED)) then
    return redis.error_reply('TRYAGAIN the record of a lane is moving to another node')
  end
  redis.call('LLEN', POPPED) -- an error if it is no list
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
  vacate(list, must_arm)
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
remember_popped(popped, total)
return popped
