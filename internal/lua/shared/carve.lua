-- Turns a long shard into full ones.
--
-- A plain list becomes an end shard of the list by one RENAME, see shared/take_over.lua. So an end shard may be longer than the
-- capacity. Shards between the ends may not, since indices are computed. So a long shard stays at its end: what is pushed
-- there goes onto it, unless it is the only shard. It becomes shorter by pops, by commands/adopt.lua, and by pushes onto it.
--
-- requires: shared/list shared/shards shared/values

-- may_move tells whether a script that has moved some elements may also move those of a full shard. size is that of one.
local function may_move(list, moved, size)
  local all = moved + list.cap
  return moved == 0 or all <= MOVE_STEP and all * size <= MOVE_BYTES
end

-- shift_elements moves elements from the right end of a key to the left end of another, or from left to right.
-- They keep their order. The script has written before.
local function shift_elements(from, to, leftwards, number)
  local elements = redis.call(leftwards and 'RPOP' or 'LPOP', from, number)
  push_values(leftwards and 'LPUSH' or 'RPUSH', to, elements, 1, #elements)
end

-- carve moves the inner elements of a long end shard to a full one of their own, beside it. The script has written before. It
-- returns how many elements it has moved: none if the shard is not long, or while the slot moves, which it tells too.
local function carve(list, left)
  local id, step = left and list.first or list.last, left and -1 or 1
  local inner, outer = list.shards .. id, list.shards .. (id + step)
  if redis.call('LLEN', inner) <= list.cap then
    return 0, false
  elseif is_moving(redis.pcall('EXISTS', inner, outer, PREFIX .. 'never')) then
    return 0, true
  end
  local ttl = list.expires and redis.call('HGET', META, 'ttl')
  redis.call('RENAME', inner, outer) -- over what may be stale there
  shift_elements(outer, inner, left, list.cap)
  set_ttl(list, id, ttl)
  set_ttl(list, id + step, ttl) -- which the TTL cursor may have passed
  list[left and 'first' or 'last'] = id + step
  save_list(list)
  return list.cap, false
end

-- carve_at_times carves after a push of count elements onto a shard that had size: so often that the shard gets shorter, and so
-- seldom that a push moves eight elements in the mean. It leaves large elements to commands/adopt.lua.
local function carve_at_times(list, left, size, count)
  if list.restores or list.gathers then
    return -- the shard is to become longer
  end
  local period = math.max(1, math.floor(list.cap / 8))
  if size % period + count >= period then
    local inner = redis.call('LINDEX', list.shards .. (left and list.first or list.last), left and -1 or 0)
    if #inner * list.cap <= MOVE_BYTES then
      carve(list, left)
    end
  end
end
