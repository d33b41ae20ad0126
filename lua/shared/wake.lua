-- What a consumer that waits, or has been woken, does to the list.
--
-- requires: shared/list shared/identity shared/bell

-- is_released tells whether the release key of a woken consumer, if it has one, says to take nothing.
local function is_released(key)
  local seen = key == '' and 0 or redis.pcall('EXISTS', key)
  return not is_moving(seen) and seen == 1
end

-- arm makes the next push into the empty list ring, and removes an old dummy. The bell is here.
local function arm(list)
  redis.call('DEL', BELL)
  identify(list)
  list.armed = true
  save_list(list)
  if not list.stale then
    expire_idle(list)
  end
end
