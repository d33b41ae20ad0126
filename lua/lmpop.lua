-- Pops up to count elements from the first of several lists that has any, as LMPOP does, for a caller that may want to wait
-- for them.
--
-- KEYS  see lists.lua
-- ARGV  1 to 4 see lists.lua, 5 'L' or 'R', 6 count; with 0, the operation counts as done, and earlier copies of it can do
--       nothing any more; 7 how the caller waits, and 8 its release key, as in pop.lua
-- Reply 0, or 1 if the operation had been done before; if there are elements, an array of the number of their list, and
--       arrays of them, one for each shard they came from, in the order popped
-- Cost  O(lists + elements popped).
--
-- Safe because every key is read before the first write, and because that write cannot grow the data set, so that a full
-- server lets it pass.
--
-- No wake-up is lost: BLPOP took one dummy from one of the bells, and the script does not know from which. So a woken pop
-- passes it on at every list.

local LEFT = ARGV[5] == 'L'
local WOKEN = ARGV[7] == 'woken'
local RELEASE = ARGV[8]

local done, stale_operation = recall()
if done then
  local head, popped = recalled(done)
  return { 1, popped and { head }, popped }
elseif stale_operation then
  return stale_operation
end
local count = tonumber(ARGV[6])
local released = WOKEN and is_released(RELEASE)
if released then
  count = 0
end

-- Look: which list gives the elements. One that cannot be read is an error if it stands before that, as in Redis.
local lists, from = {}, nil
for i = 1, LISTS do
  use(i)
  local list, problem = open()
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
local plan
if from then
  use(from)
  local problem
  plan, problem = plan_take(lists[from], LEFT, count)
  problem = problem or record_problem(plan.total)
  if problem then
    return problem
  end
end
local passes = {}
if WOKEN or (ARGV[7] == 'first' and not from) then
  for i, list in ipairs(lists) do
    use(i)
    passes[i] = list and bell_at_hand()
  end
end

-- Write.
if released then
  redis.call('DEL', RELEASE)
end
local popped = {}
if from then
  use(from)
  popped = take_planned(lists[from], plan, passes[from])
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
remember_elements(from and tostring(from) or '', popped, plan and plan.total or 0)
local reply = { 0, from and { tostring(from) } }
for i, shard in ipairs(popped) do
  reply[i + 2] = shard
end
return reply
