-- Removes elements that equal a value, and closes the gaps.
--
-- Gaps are closed from the nearer end of the list. A shard that stays is never without elements in between: while its slot
-- moves, a deleted key cannot be created again. So elements are copied to their new shard. Those that a shard has given away,
-- or loses together with all others, stay in it as stale ones until it has been filled again.
--
-- requires: shared/list shared/length shared/emptied shared/shards shared/values shared/searched

-- plan_gaps says what closing the gaps from one end, near, takes: far is the outermost shard at the other end that keeps
-- elements. gap is the farthest gap between the two, or lies beyond near if there is none. shards is the number from there to
-- near.
local function plan_gaps(list, plan, step)
  local keeps, loses, lowest, highest = plan.keeps, plan.loses, plan.lowest, plan.highest
  local near = step < 0 and list.first or list.last
  local far = step < 0 and list.last or list.first
  while keeps[far] == 0 and far ~= near do
    far = far + step
  end
  local gap = step > 0 and math.max(far + step, lowest) or math.min(far + step, highest)
  while gap >= lowest and gap <= highest and not loses[gap] do
    gap = gap + step
  end
  if not loses[gap] then
    gap = near + step
  end
  return { step = step, near = near, far = far, gap = gap, shards = (near - gap) * step + 1 }
end

-- plan_remove reads every shard that changes if so many elements are removed: from the left end if count is positive, from the
-- right end if negative, all if 0. It returns a plan, whose field removed says how many there are; or nil and the error, or
-- MORE. shared/searched.lua explains what is known.
local function plan_remove(list, length, count, value)
  local problem
  local direction = count < 0 and -1 or 1
  local wanted = count == 0 and length or math.min(math.abs(count), length)
  local loses, keeps = {}, {} -- by id
  local lowest, highest, removed = math.huge, -math.huge, 0
  local id = count < 0 and list.last or list.first
  while removed < wanted and id >= list.first and id <= list.last do
    if known_at(id) ~= '' then
      local size
      size, problem = shard_length(list, id)
      local found = size and find_in(list, id, size, value, direction, math.min(wanted - removed, size), size)
      if not found then
        return nil, problem or MORE
      end
      keeps[id] = size - #found
      loses[id] = #found > 0 and #found or nil
    end
    if loses[id] then
      lowest, highest = math.min(lowest, id), math.max(highest, id)
      removed = removed + loses[id]
    end
    id = id + direction
  end
  local plan = { loses = loses, keeps = keeps, lowest = lowest, highest = highest, removed = removed, length = length }
  plan.direction, plan.value = direction, value
  if removed == 0 then
    return plan
  end
  local chosen, other = plan_gaps(list, plan, -1), plan_gaps(list, plan, 1)
  if other.shards < chosen.shards then
    chosen = other
  end
  plan.chosen = chosen
  problem = shard_lengths(list, chosen.gap, chosen.near, chosen.step, keeps)
  if problem then
    return nil, problem
  end
  return plan
end

-- move_elements moves a number of elements from a shard to the next one to fill, which is farther from the near end. A shard
-- that keeps some and has no stale ones gives them away at once.
local function move_elements(list, plan, stale, from, to, number)
  local keeps, step = plan.keeps, plan.chosen.step
  local dropped = stale[from] or 0
  local pops = dropped == 0 and number < keeps[from]
  for moved = 0, number - 1, UNPACK_MAX do
    local size = math.min(UNPACK_MAX, number - moved)
    local start = step > 0 and dropped + moved or keeps[from] - moved - size
    local elements
    if pops then
      elements = redis.call(step > 0 and 'LPOP' or 'RPOP', list.shards .. from, size)
    else
      elements = redis.call('LRANGE', list.shards .. from, start, start + size - 1)
      for i = 1, step < 0 and size / 2 or 0 do
        elements[i], elements[size + 1 - i] = elements[size + 1 - i], elements[i]
      end
    end
    redis.call(step > 0 and 'RPUSH' or 'LPUSH', list.shards .. to, unpack(elements))
  end
  keeps[from], keeps[to] = keeps[from] - number, keeps[to] + number
  stale[from] = not pops and dropped + number or nil
end

-- close_gaps moves elements toward the far end. stale has the number of elements, by id of the shard, that are to be dropped.
local function close_gaps(list, plan, stale)
  local keeps, chosen = plan.keeps, plan.chosen
  local step, near, far = chosen.step, chosen.near, chosen.far

  -- The farthest gap comes first. Shards at the near end that get no elements are deleted.
  local to, from = chosen.gap, chosen.gap + step
  while (near - to) * step >= 0 do
    if from == to then
      from = to + step
    end
    local cap = cap_at(list, to)
    while keeps[to] < cap and (near - from) * step >= 0 do
      move_elements(list, plan, stale, from, to, math.min(cap - keeps[to], keeps[from]))
      if keeps[from] == 0 then
        from = from + step
      end
    end
    if keeps[to] == 0 then
      break
    end
    trim_stale(list, to, stale[to] or 0, step < 0)
    to = to + step
  end
  for gone = to, near, step do
    redis.call('UNLINK', list.shards .. gone)
  end
  for gone = far - step, step > 0 and list.first or list.last, -step do
    redis.call('UNLINK', list.shards .. gone)
  end
  local first = step > 0 and far or to - step
  local last = step > 0 and to - step or far
  save_searches(list, math.min(chosen.gap, near), math.max(chosen.gap, near))
  if first ~= list.first or last ~= list.last then
    list.first, list.last = first, last
    save_list(list)
  end
end

-- remove_planned removes what plan_remove has planned, which is not nothing. Its first write changes nothing, as no list with
-- elements is armed. OOM allows it, and then the pushes that follow.
local function remove_planned(list, plan)
  redis.call('HDEL', META, 'armed')
  if plan.removed == plan.length then
    for gone = list.first, list.last do
      redis.call('UNLINK', list.shards .. gone)
    end
    on_emptied(list)
    return
  end
  local stale = {} -- by id
  for id, number in pairs(plan.loses) do
    if plan.keeps[id] > 0 then
      redis.call('LREM', list.shards .. id, number * plan.direction, plan.value)
    else
      stale[id] = number
    end
  end
  close_gaps(list, plan, stale)
end
