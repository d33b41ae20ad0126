-- Pops up to count elements from the first of several lists that has any, as LMPOP does. The caller may wait for them.
--
-- requires: shared/elements shared/sweep shared/lists shared/wake shared/pass_on shared/take shared/take_in
--
-- KEYS  see shared/lists.lua
-- ARGV  1 to 4 see shared/lists.lua, 5 'L' or 'R', 6 count: with 0, the pop counts as done, and earlier copies of it have no
--       effect any more; 7 how the caller waits, and 8 its release key, as in pop.lua
-- Reply 0, or 1 if the pop had been done before; if there are elements, an array of the number of their list, and arrays of
--       them, one for each shard, in the order popped
-- Flags allow-oom
-- Cost  O(lists + elements popped).
--
-- Safe because it reads every key before the first write, and because that write cannot grow the data set: OOM allows it.
--
-- No wake-up is lost: BLPOP took one dummy from one of the bells, and the script does not know which. So a woken pop passes the
-- wake-up on at every list.

local LEFT = ARGV[5] == 'L'
local WOKEN = ARGV[7] == 'woken'
local WAITS = ARGV[7] == 'first' or ARGV[7] == 'again'
local RELEASE = ARGV[8]

local done, failure = replay()
if done then
  local head, popped = replay_elements(done)
  return { 1, popped and { head }, popped }
elseif failure then
  return failure
end
local count = tonumber(ARGV[6])
local released = WOKEN and is_released(RELEASE)
if released then
  count = 0
end

-- Read: which list gives the elements. As in Redis, an unreadable list is an error only if it comes before that one.
local lists, from = {}, nil
for i = 1, LISTS do
  use(i)
  local list, problem = open((WOKEN or ARGV[7] == 'again') and 'waiting', false, popped_at(LEFT))
  if problem and count > 0 and not from then
    return problem
  end
  lists[i] = list or false
  if list and count > 0 and not from and not is_empty(list) then
    from = i
    if not WOKEN then
      break
    end
  end
end
local parts, total, stop = {}, 0, nil
if from then
  use(from)
  parts, total, stop = plan_take(lists[from], LEFT, count)
  if not parts then
    return total
  end
  local problem = elements_problem(total)
  if problem then
    return problem
  end
end
local passes = {}
if WOKEN or (WAITS and not from) then
  for i, list in ipairs(lists) do
    use(i)
    passes[i] = list and BESIDE ~= '.' and bell_is_here()
  end
end

if released then
  redis.call('DEL', RELEASE)
end
local popped = {}
if from then
  use(from)
  popped = take_planned(lists[from], LEFT, parts, stop, passes[from])
end
for i, list in ipairs(lists) do
  if list then
    use(i)
    if passes[i] then
      pass_on(list)
    end
    sweep(list)
  end
end
save_elements(from and tostring(from) or '', popped, total)
local reply = { 0, from and { tostring(from) } }
for i, shard in ipairs(popped) do
  reply[i + 2] = shard
end
return reply
