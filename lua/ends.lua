-- Taking elements from an end of a list and putting values at one, for scripts that do so with any number of them. This file
-- stands in front of the script.
--
-- Both come in two parts. plan_… reads every key that will be written; it returns a plan, or nil and the error to reply with.
-- take_planned and put_planned carry it out. All work on the list that was turned to last.

-- plan_take looks which shards at one end give how many of up to count elements. A plan has those numbers, from the end inward.
local function plan_take(list, left, count)
  local near = left and list.first or list.last
  local plan = { left = left, near = near, step = left and 1 or -1, total = 0 }
  local at = near
  while plan.total < count and at >= list.first and at <= list.last do
    local size = redis.call('LLEN', PREFIX .. at)
    if size == 0 then
      return nil, missing(at)
    end
    local part = math.min(count - plan.total, size)
    plan[#plan + 1] = part
    plan.total = plan.total + part
    if part < size then
      break
    end
    at = at + plan.step
  end
  plan.at = at -- where the end will be
  plan.empties = at < list.first or at > list.last
  return plan
end

-- take_planned pops what was planned, with a command that never grows, and moves the pointers. It returns arrays of elements,
-- one a shard, in the order popped. The meta of a list that it empties goes, unless the list stays: to be armed.
local function take_planned(list, plan, stays)
  local shards = {}
  for i, part in ipairs(plan) do
    local id = plan.near + (i - 1) * plan.step
    shards[i] = redis.call(plan.left and 'LPOP' or 'RPOP', PREFIX .. id, part)
  end
  if plan.empties and plan.total > 0 then
    vacate(list, stays)
  elseif plan.at ~= plan.near then
    local pointer = plan.left and 'first' or 'last'
    list[pointer] = plan.at
    redis.call('HSET', META, pointer, plan.at)
  end
  return shards
end

-- plan_put looks how much room the shard at one end has, whose size is given, and that the shards after it may be made. The
-- capacity counts if the list is empty.
local function plan_put(list, left, size, count, cap)
  local plan = { left = left, near = left and list.first or list.last, step = left and -1 or 1, room = 0 }
  plan.creates = is_empty(list)
  plan.cap = plan.creates and cap or list.cap
  if not plan.creates then
    plan.room = plan.cap - size
    if plan.room < 0 then
      return nil, redis.error_reply('BROKENLIST an end shard holds more than the capacity')
    end
  end
  plan.made = math.max(0, math.ceil((count - plan.room) / plan.cap))
  plan.stale = {} -- how many elements of a deleted list stand there
  for i = 1, plan.made do
    local stale, problem = beneath(list, plan.near + i * plan.step)
    if problem then
      return nil, problem
    end
    plan.stale[i] = stale
  end
  plan.ends = plan.made > 0 and lease(list)
  plan.rings = list.armed and plan.made > 0 and bell_at_hand()
  return plan
end

-- put_planned pushes the values from an index on, one after the other, and wakes who waits for them. Its first command is one
-- that a full server refuses.
local function put_planned(list, plan, values, from)
  if plan.made > 0 then
    local pointer = plan.left and 'first' or 'last'
    list[pointer] = plan.near + plan.made * plan.step
    list.cap, list.armed = plan.cap, false
    redis.call('HSET', META, 'layout', LAYOUT, 'first', list.first, 'last', list.last, 'cap', list.cap, 'armed', 0)
  end
  for i = 0, plan.made do
    local id = plan.near + i * plan.step
    local to = math.min(#values, from + (i == 0 and plan.room or plan.cap) - 1)
    push_values(plan.left and 'LPUSH' or 'RPUSH', PREFIX .. id, values, from, to)
    if i > 0 then
      adopt(id, plan.stale[i], plan.left, plan.ends)
    end
    from = to + 1
  end
  if plan.creates then
    redis.call('PERSIST', META)
  end
  if plan.rings then
    ring()
  end
end

-- pass_on is for a consumer that has been woken, or is about to block: a list that has elements wakes the next consumer, an
-- empty one is armed. The bell is at hand.
local function pass_on(list)
  if is_empty(list) then
    arm(list)
    list.armed = true
  else
    redis.call('PEXPIRE', BELL, IDLE_MS) -- a full server lets this pass, and so what follows
    ring()
  end
end

-- The record of elements is a head of digits, then nothing, '=' and one element, or '@' for the elements in POPPED. Those are
-- pushed and the older ones trimmed: joining many elements in Lua would cost far more than popping them.

-- recalled returns the head of such a record, and the elements, or nil if there are none.
local function recalled(result)
  local mark = string.find(result, '[=@]')
  if not mark then
    return result
  end
  local head = string.sub(result, 1, mark - 1)
  if string.sub(result, mark, mark) == '@' then
    return head, redis.call('LRANGE', POPPED, 0, -1)
  end
  return head, { string.sub(result, mark + 1) }
end

-- record_problem is the error to reply with if that many elements cannot be remembered.
local function record_problem(total)
  if RECORD and total > 1 then
    if is_moving(redis.pcall('EXISTS', META, POPPED)) then
      return redis.error_reply('TRYAGAIN the record of a lane is moving to another node')
    end
    redis.call('LLEN', POPPED) -- an error if it is no list
  end
end

-- remember_elements writes the record of elements, which are in arrays.
local function remember_elements(head, shards, total)
  if total == 0 then
    touch()
    remember(head)
  elseif total == 1 then
    remember(head .. '=' .. shards[1][1])
  elseif RECORD then
    for _, shard in ipairs(shards) do
      push_values('RPUSH', POPPED, shard, 1, #shard)
    end
    redis.call('LTRIM', POPPED, -total, -1)
    redis.call('PEXPIRE', POPPED, ARGV[3])
    remember(head .. '@')
  end
end
