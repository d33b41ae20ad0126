-- Pushes any number of values onto an end of a list.
--
-- requires: shared/list shared/identity shared/bell shared/shards shared/values shared/take_over

-- plan_put reads every key that a push of count values will write. size is the length of the end shard, cap the capacity if
-- the list outgrows its key, or the second of its shards is made beside a long one, or what capacity_for takes in place of it;
-- bytes are the average of the values. It returns how many values the end shard takes and, if shards must be
-- made, a plan for them; or nil and the error. A long shard that is not alone takes any number of values, and so does one
-- beside the part (shared/carve.lua). The plan is an array of how many stale elements there are at the id of each new shard,
-- with these fields:
--   ttl    the time at which the new shards expire, or false
--   fresh  whether meta does not name any shards yet, and so there is nothing at the new keys either
--   rings  whether the push wakes a consumer
local plan_put
do
  local MAX_STEPS = 64 -- beyond them, no shard is closed; beyond a quarter of them, capacities only become smaller

  -- capacity_at returns how many elements the plain key may have before a push of count values of that many bytes on the
  -- average. It reads as little as it can.
  local function capacity_at(size, count, bytes, how)
    if size + count <= LEAST then
      return LEAST
    end
    local cap = capacity_for(bytes, how)
    if size > 0 and size + count > cap then -- others may be smaller
      cap = capacity_for((bytes_of(PLAIN) * size + bytes * count) / (size + count), how)
    end
    return cap
  end

  -- outgrow makes shards of a short list, which is about to get longer than one, or returns the error. A list that has to grow
  -- while memory is full stays as it is.
  local function outgrow(list, left, cap)
    local short, empty, full = list.short, is_empty(list), no_memory()
    local says = (BESIDE == '^' and popped_at or pushed_at)(left)
    if full then
      return short.grows and full or nil
    end
    list.restored, list.short = nil, nil
    list.shards, list.last, list.cap = short.shards, list.first - 1, cap
    if not empty then
      return take_over(list, PLAIN, cap, says)
    end
    list.join = join_after(list.join, says)
  end

  -- bytes_at returns how many bytes the values at a key take.
  local function bytes_at(key, size)
    local used = redis.pcall('MEMORY', 'USAGE', key, 'SAMPLES', 0)
    return type(used) == 'number' and used or bytes_of(key) * size
  end

  -- set_capacity gives the end shard a capacity, and the shards that will be beyond it another.
  local function set_capacity(list, left, own, beyond)
    local near, steps = left and list.first or list.last, {}
    local inner = cap_at(list, near + 1)
    list.begun = list.begun or list.cap
    if left then
      list.cap = beyond
      steps = { { id = near, cap = own }, { id = near + 1, cap = inner } }
    else
      list.cap = cap_at(list, list.first)
    end
    for _, step in ipairs(list.steps or {}) do
      if left and step.id > near + 1 and step.id <= list.last or not left and step.id > list.first and step.id < near then
        steps[#steps + 1] = step
      end
    end
    if not left then
      steps[#steps + 1] = { id = near, cap = own }
      steps[#steps + 1] = { id = near + 1, cap = beyond }
    end
    list.steps = steps
  end

  -- adapt closes the end shard if the values would make it too large, and gives those beyond it another capacity if theirs does
  -- not suit the values. It returns how many values the end shard takes.
  local function adapt(list, left, size, count, cap, bytes)
    local id, step = left and list.first or list.last, left and -1 or 1
    local own, beyond = cap_at(list, id), cap_at(list, id + step)
    local key, steps = list.shards .. id, #(list.steps or {})
    local crowded = is_crowded(own, bytes, cap) and steps + 2 <= MAX_STEPS
      and bytes_at(key, size) + bytes * math.min(own - size, count) > SHARD_LIMIT
    own = crowded and math.max(LEAST, size) or own
    if size + count <= own then
      return own - size
    end
    local fits = capacity_for(bytes, cap)
    if not is_crowded(beyond, bytes, cap) then -- larger again, but not beside a larger value
      fits = steps > 0 and steps <= MAX_STEPS / 4 and math.min(list.begun, fits, capacity_for(bytes_of(key), cap)) or 0
      fits = fits >= 4 * beyond and fits or beyond
    end
    if crowded or fits ~= beyond and steps + 2 <= MAX_STEPS then
      set_capacity(list, left, own, fits)
    end
    return own - size
  end

  function plan_put(list, left, size, count, cap, bytes)
    local room, fresh, by_size = 0, false, cap and cap <= 0
    cap = cap or 0
    if list.short and BESIDE ~= '.' then
      local most = cap > 0 and cap or capacity_at(size, count, bytes, cap)
      local problem = size + count > most and outgrow(list, left, most)
      if problem then
        return nil, problem
      end
    end
    if is_empty(list) then
      list.cap, fresh = list.cap > 0 and list.cap or cap > 0 and cap or capacity_for(bytes, cap), identify(list)
    else
      if list.first == list.last and size > list.cap and size > cap and not list.short then
        list.cap = capacity_beside(list, cap) -- nothing depends on the former one yet
      end
      local own = cap_at(list, left and list.first or list.last)
      local onto = list.first < list.last and (size > own or beside_part(list, left))
      local adapts = by_size and size <= own and type(list.shards) == 'string'
      room = onto and math.huge or adapts and adapt(list, left, size, count, cap, bytes) or math.max(0, own - size)
    end
    if count <= room then
      return room
    end
    local plan = { fresh = fresh }
    local id, step, rest = left and list.first or list.last, left and -1 or 1, count - room
    while rest > 0 do
      id = id + step
      rest = rest - cap_at(list, id)
      plan[#plan + 1] = fresh and 0 or redis.call('LLEN', list.shards .. id)
      if list.stale and is_away(list.shards .. id) then
        return nil, missing(list, id)
      end
    end
    plan.ttl = list.expires and list.ttl
    plan.rings = list.armed and bell_is_here()
    return room, plan
  end
end

-- put_planned pushes values[from] and all that follow, one after the other. room and plan are those of plan_put. OOM refuses
-- its first write.
local function put_planned(list, left, room, plan, values, from)
  local PUSH, id = left and 'LPUSH' or 'RPUSH', left and list.first or list.last
  local to = math.min(#values, from + room - 1)
  if not plan then
    push_values(PUSH, list.shards .. id, values, from, to)
    return
  end
  local creates, step = is_empty(list), left and -1 or 1
  if creates and list.restored then -- whatever the id, it is the plain key
    list.last = list.first
  else
    list[left and 'first' or 'last'] = id + #plan * step
  end
  list.armed = false
  save_list(list)
  push_values(PUSH, list.shards .. id, values, from, to)
  for _, stale in ipairs(plan) do
    id = id + step
    from, to = to + 1, math.min(#values, to + cap_at(list, id))
    push_values(PUSH, list.shards .. id, values, from, to)
    claim_shard(list, id, stale, left, plan.ttl)
  end
  if creates and (list.only_records or not plan.fresh) then
    redis.call('PERSIST', META)
  end
  if plan.rings then
    ring()
  end
end
