-- Pops up to count elements from one end, as LPOP and RPOP do. The caller may wait for more.
--
-- requires: fast/pop_more shared/elements shared/sweep shared/wake shared/take shared/take_in
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 'L' or 'R', 5 count: with 0, the pop counts as done, and earlier copies of it have
--       no effect any more; 6 how the caller waits:
--         'no'     not at all
--         'first'  it is about to wait: if there are fewer than count elements, arm the list
--         'again'  the same, but it has been waiting: the plain key may have got another type meanwhile
--         'woken'  its BLPOP on the bell has just ended; 7 is its release key, whose presence says to take nothing
--       7 with 'no', 'part' to take fewer than count if the end shard has no more, and tell
--       8 'leave' if the elements may be left in POPPED, for the caller to read there, or 'join' if they are expected to be few
--         and small
-- Reply 5 if it has taken a part, and the list has more; or else 1 if the pop had been done before, 2 if it has found
--       elements at the plain key, 4 if it would have left the elements in POPPED, but SORT is refused, else 0; then arrays of
--       elements, one for each shard, in the order popped. Or 3, or 5, and how many elements it has left in POPPED. Or only one
--       element, popped now
-- Flags allow-oom
-- Cost  O(elements popped).
--
-- Safe because it reads every key before the first write, and because that write (LPOP, DEL or UNLINK, or PEXPIRE if it takes
-- nothing) cannot grow the data set: OOM allows it.
--
-- No wake-up is lost: while the list has elements and a consumer is blocked on the bell, a dummy is in the bell or a woken pop
-- is about to run. A push into an armed list rings. A woken pop rings again if it leaves elements, and arms the list if not.
-- Other pops leave the bell and armed as they are.

local done, failure = replay()
if done then
  local head, popped = replay_elements(done)
  return { head == 'MORE' and 5 or 1, popped }
elseif failure then
  return failure
end
local woken, waits = ARGV[6] == 'woken', ARGV[6] ~= 'no'
local list, problem = open(waits and ARGV[6] ~= 'first' and 'waiting', false, popped_at(ARGV[4] == 'L'))
if problem then
  return problem
end
local left, count = ARGV[4] == 'L', tonumber(ARGV[5])
local released = woken and is_released(ARGV[7])
if released then
  count = 0
end

local parts, total, stop = plan_take(list, left, count)
if not parts then
  return total
end
local more = ARGV[7] == 'part' and ARGV[6] == 'no' and #parts > 1
if more then
  parts, total = { parts[1] }, parts[1]
  stop = left and list.first + 1 or list.last - 1
end
problem = elements_problem(total)
if problem then
  return problem
end
local empties = stop < list.first or stop > list.last
local must_ring = woken and not empties
local must_arm = empties and (woken or (waits and total < count))
if (must_ring or must_arm) and not bell_is_here() then
  must_ring, must_arm = false, false
end

if released then
  redis.call('DEL', ARGV[7])
end
local popped = take_planned(list, left, parts, stop, must_arm)
if must_arm then
  arm(list)
elseif must_ring then
  if total == 0 then
    redis.call('PEXPIRE', BELL, IDLE_MS) -- OOM allows this, and so the ring behind it
  end
  ring()
end
sweep(list)
if total == 0 and POPPED and ARGV[8] == 'leave' then
  redis.pcall('DEL', POPPED) -- the caller is about to read it
end
save_elements(more and 'MORE' or '', popped, total)
table.insert(popped, 1, more and 5 or list.found and 2 or 0)
return popped
