-- Pushes any number of values onto an end of a list.
--
-- requires: shared/list shared/identity shared/bell shared/shards shared/values

-- plan_put reads every key that a push of count values will write. size is the length of the end shard, cap the capacity if
-- the push creates the list, or the second of its shards beside a long one. It returns how many values the end shard takes
-- and, if shards must be made, a plan for them; or nil and the error. A long shard that is not alone takes any number of
-- values, and so does one beside the part (shared/carve.lua). The plan is an array of how many stale elements there are at the
-- id of each new shard, with these fields:
--   ttl    the time at which the new shards expire, or false
--   fresh  whether meta does not name any shards yet, and so there is nothing at the new keys either
--   rings  whether the push wakes a consumer
local function plan_put(list, left, size, count, cap)
  local room, fresh = 0, false
  if is_empty(list) then
    list.cap, fresh = list.restored and list.cap or cap, identify(list)
  else
    if list.first == list.last and size > list.cap and size > (cap or size) then
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
  list[left and 'first' or 'last'] = id + #plan * step
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
