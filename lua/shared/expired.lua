-- Lists that have expired, and the meta of empty lists.
--
-- requires: shared/server shared/save

-- expire_idle lets the meta of an empty list expire, not before the records in it. That of a restored one stays.
local function expire_idle(list)
  if list.restored and not list.short or list.restores then
    return
  end
  redis.call('PEXPIRE', META, list.records and math.max(IDLE_MS, list.records - clock()) or IDLE_MS)
end

-- empty_expired makes an expired list an empty one. No client can tell the difference, so this may come before anything else.
-- how is as for open: a growing script starts with a command that OOM refuses, others with one that it allows.
local function empty_expired(list, how)
  detach(list)
  if how == 'reading' then
    return
  end
  if how ~= 'growing' then
    redis.call('HDEL', META, 'expires')
  end
  list.more = nil
  save_list(list)
  redis.call('HDEL', META, 'expires', 'ttl', 'walk')
end
