-- Unlinks shards that the list has left behind.
--
-- requires: shared/list

local SWEEP_STEP = 100 -- shards that one operation unlinks

-- sweep unlinks up to SWEEP_STEP shards that DEL or LTRIM left, never a live one, and records the progress in meta. It stops
-- where the slot moves: a shard on the other node must not count as swept.
local function sweep(list)
  if not list.lo then
    return
  end
  local id, stop = list.lo, list.lo + SWEEP_STEP
  while id <= list.hi and id < stop do
    if id >= list.first and id <= list.last then
      stop = stop + list.last + 1 - id
      id = list.last + 1
    else
      local seen = redis.pcall('EXISTS', META, PREFIX .. id)
      if type(seen) == 'table' then
        break
      end
      if seen == 2 then
        redis.call('UNLINK', PREFIX .. id)
      end
      id = id + 1
    end
  end
  if id == list.lo then
    return
  end
  if id <= list.hi then
    list.lo = id
    redis.call('HDEL', META, 'lo') -- OOM allows this, and then what follows
    redis.call('HSET', META, 'lo', id)
    return
  end
  list.lo, list.hi = nil, nil
  if not is_empty(list) then
    redis.call('HDEL', META, 'lo', 'hi')
  elseif list.armed then
    redis.call('HDEL', META, 'lo', 'hi')
    redis.call('PEXPIRE', META, IDLE_MS)
  else
    redis.call('DEL', META)
  end
end
