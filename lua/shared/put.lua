-- Pushes any number of values onto an end of a list.
--
-- requires: shared/list shared/identity shared/bell shared/shards shared/values shared/take_over

-- plan_put reads every key that a push of count values will write. size is the length of the end shard, cap the capacity if
-- the list outgrows its key, or the second of its shards is made beside a long one, or what capacity_for takes in place of it;
-- bytes are the average of the values, if they are known. It returns how many values the end shard takes and, if shards must be
-- made, a plan for them; or nil and the error. A long shard that is not alone takes any number of values, and so does one
-- beside the part (shared/carve.lua). The plan is an array of how many stale elements there are at the id of each new shard,
-- with these fields:
--   ttl    the time at which the new shards expire, or false
--   fresh  whether meta does not name any shards yet, and so there is nothing at the new keys either
--   rings  whether the push wakes a consumer
local plan_put
do
  -- capacity_at returns how many elements the plain key may have before a push of count values of that many bytes on the
  -- average, or of about as many as those that are there. It reads as little as it can.
  local function capacity_at(size, count, bytes, how)
    if size + count <= LEAST then
      return LEAST
    end
    local cap = capacity_for(bytes or bytes_of(PLAIN), how)
    if size > 0 and bytes and size + count > cap then -- others may be smaller
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

  function plan_put(list, left, size, count, cap, bytes)
    local room, fresh = 0, false
    cap = cap or 0
    if list.short and BESIDE ~= '.' then
      local most = cap > 0 and cap or capacity_at(size, count, bytes, cap)
      local problem = size + count > most and outgrow(list, left, most)
      if problem then
        return nil, problem
      end
    end
    if is_empty(list) then
      list.cap, fresh = list.cap > 0 and list.cap or cap > 0 and cap or capacity_for(bytes or 0, cap), identify(list)
    else
      if list.first == list.last and size > list.cap and size > cap and not list.short then
        list.cap = capacity_beside(list, cap) -- nothing depends on the former one yet
      end
      local onto = list.first < list.last and (size > list.cap or beside_part(list, left))
      room = onto and math.huge or math.max(0, list.cap - size)
    end
    if count <= room then
      return room
    end
    local plan = { fresh = fresh }
    local id, step = left and list.first or list.last, left and -1 or 1
    for i = 1, math.ceil((count - room) / list.cap) do
      id = id + step
      plan[i] = fresh and 0 or redis.call('LLEN', list.shards .. id)
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
    id, from, to = id + step, to + 1, math.min(#values, to + list.cap)
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
