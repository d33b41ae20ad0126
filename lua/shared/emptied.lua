-- Updates meta when a list becomes empty.
--
-- requires: shared/list

-- on_emptied updates meta after the list has lost its last element. The pointers move beyond the shards that are still to be
-- swept, so that new shards do not meet them. An empty list does not expire. Meta is deleted unless keep_meta says otherwise,
-- or it holds a dedup record, or says that the list is restored.
local function on_emptied(list, keep_meta)
  if list.restored then
    list.last = list.first - 1
    return
  end
  list.first = list.own and list.own.hi + 1 or 0
  list.last = list.first - 1
  list.armed, list.more, list.join = false, nil, keep_meta and list.join or 0
  if not list.stale and not list.records and not list.restores and not keep_meta then
    redis.call('DEL', META)
    list.old_records = nil
  elseif list.expires then
    redis.call('HDEL', META, 'expires', 'ttl', 'walk')
  end
  list.expires, list.steps = nil, nil
  if list.stale or list.records or list.restores then
    save_list(list)
  end
  if list.records and not list.stale then
    expire_idle(list)
  end
end
