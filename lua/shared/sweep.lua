-- Unlinks shards that the list has left behind, and dedup records in meta that are old.
--
-- requires: shared/list shared/records

-- sweep unlinks stale shards, SWEEP_STEP unless limit says how many, never a live one, and records the progress in meta. It
-- tells whether it got on and is to continue.
local sweep
do
  local SWEEP_STEP = 20 -- stale shards that an operation looks at: more would delay it, and others

  -- sweep_records drops the old records, and a meta that was there for them only.
  local function sweep_records(list)
    drop_old_records(META, clock())
    list.old_records = nil
    if list.only_records and is_empty(list) and not list.armed and not list.records and not list.stale then
      redis.call('DEL', META)
    elseif not list.stale then
      save_list(list)
    end
  end

  -- unlink_stale unlinks stale shards in up to so many steps, and tells whether it got on. It stops where the slot moves: a
  -- shard on the other node must not count as swept.
  local function unlink_stale(list, limit)
    local range, steps, progress = list.stale[1], 0, false
    while range and steps < limit do
      local id = range.lo
      if range == list.own and id >= list.first and id <= list.last then
        id = list.last
      else
        local seen = redis.pcall('EXISTS', META, range.shards .. id)
        if type(seen) == 'table' then
          break
        end
        if seen == 2 then
          redis.call('UNLINK', range.shards .. id)
        end
        steps = steps + 1
      end
      range.lo, progress = id + 1, true
      if range.lo > range.hi then
        table.remove(list.stale, 1)
        list.own = range ~= list.own and list.own or nil
        range = list.stale[1]
      end
    end
    return progress
  end

  function sweep(list, limit)
    if list.old_records then
      sweep_records(list)
    end
    if not list.stale or not unlink_stale(list, limit or SWEEP_STEP) then
      return false
    end
    redis.call('HDEL', META, 'stale') -- OOM allows this, and then what follows
    if list.stale[1] then
      save_list(list)
      return true
    end
    list.stale = nil
    local restored = list.restored and not list.short
    if (is_empty(list) or list.short) and not (list.armed or list.records or list.restores or restored) then
      redis.call('DEL', META)
      return false
    end
    save_list(list)
    if is_empty(list) then
      expire_idle(list)
    end
    return false
  end
end
