-- Takes newcomers in: elements that processes which do not watch the plain key have pushed to it, while the list has elements.
--
-- They join one end of the list: the end opposite to the one at which elements are popped, or the one of the first push as long
-- as nobody has popped. So a process that pops gets the elements of all others in time, and a queue keeps its order. Where
-- nobody has done either, they join the right end.
--
-- Every operation takes them in before it does anything else. The end shard is filled, and what does not fit becomes the next
-- shard, by one RENAME, however long it is. Only where the end shard is a long one that is not alone, or is beside the part
-- (shared/carve.lua), they have to be moved onto it. If there is more to be moved than one script may, it replies TRYAGAIN, and
-- is sent again at once; but not in a pipeline or transaction, where others would overtake it.
--
-- requires: shared/take_over shared/carve

-- take_in takes in the elements at a plain key, of which there are some. join is the end, as the digit of the pointers has it.
-- While the slot moves, they stay where they are. It returns the error to reply with if they must be taken in first by a
-- further script. Its first write is a pop or a RENAME, which OOM allows.
function take_in(list, key, waiting, join)
  local left = join % 2 == 1
  local id = left and list.first or list.last
  local next_id = left and id - 1 or id + 1
  local size = redis.pcall('LLEN', list.shards .. id)
  if type(size) == 'table' or size == 0 or is_moving(redis.pcall('EXISTS', key, list.shards .. next_id, PREFIX .. 'never')) then
    return nil
  end
  local appends = list.first < list.last and (size > cap_at(list, id) or beside_part(list, left))
  local room = appends and waiting or math.max(0, cap_at(list, id) - size)
  local wanted = math.min(waiting, room)
  local ttl = redis.call('PTTL', key)
  list.found = true
  local number = shift_elements(key, list.shards .. id, left, wanted)
  if number < wanted then
    if list.join == 0 then
      list.join = pushed_at(left) -- the others join there, too
      save_list(list)
    end
    if ttl >= 0 then
      expire_all(list, ttl)
    end
    return redis.error_reply('TRYAGAIN elements of the plain list are being moved to the list')
  end
  if number < waiting then
    redis.call('RENAME', key, list.shards .. next_id)
    set_ttl(list, next_id, list.expires and list.ttl)
    list[left and 'first' or 'last'] = next_id
    save_list(list)
  end
  if ttl >= 0 then
    expire_all(list, ttl)
  end
end

-- newcomers_at returns the number of elements at a plain key, for Adopt and Restore, or nil and the error if they cannot be
-- taken now, or if nobody knows the end that they join. says is that end as the caller knows it, or nil.
local function newcomers_at(list, key, says)
  if is_moving(redis.pcall('EXISTS', META, key)) or is_moving(redis.pcall('EXISTS', META, PREFIX .. 'never')) then
    return nil, redis.error_reply('TRYAGAIN the list is moving to another node')
  end
  local waiting = rung_by(key) and 0 or redis.call('LLEN', key)
  if waiting > 0 and not is_empty(list) and join_after(list.join, says) == 0 then
    return nil, redis.error_reply('UNKNOWNEND')
  end
  return waiting
end

-- take_newcomers takes in the elements that newcomers_at has found, or as many as a step may move. When none are left, says
-- tells where later ones join.
local function take_newcomers(list, key, waiting, says)
  redis.call('HDEL', META, 'armed') -- changes nothing, and OOM allows it
  if waiting > 0 then
    take_in(list, key, waiting, list.join > 0 and list.join or says)
  end
  if waiting == 0 or redis.call('EXISTS', key) == 0 then
    save_join(list, nil, says)
  end
end

-- In each call:

TAKES_IN = true
