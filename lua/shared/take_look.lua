-- Who looks for jobs after a take of commands/queue_take.lua, and when.
--
-- requires: shared/wake shared/bucket shared/jobs

-- next_take returns when a job may be taken, in milliseconds, after this script has taken some and if nothing else happens; or
-- nil. empties tells whether the list has none.
local function next_take(take, empties)
  if take.paused then
    return nil
  end
  local now = take.now
  local ended = redis.call('ZREVRANGEBYSCORE', TIMES, '(0', '-inf', 'WITHSCORES', 'LIMIT', #take.old, 1)
  local event = math.min(ended[2] and -ended[2] or math.huge, take.taken > 0 and now + take.lease or math.huge)
  if not take.full then
    local comes = redis.call('ZRANGEBYSCORE', TIMES, '(0', '+inf', 'WITHSCORES', 'LIMIT', #take.due, 1)
    event = math.min(event, empties and tonumber(comes[2]) or empties and math.huge or now)
  end
  if take.interval > 0 and event < math.huge then
    event = math.max(event, math.ceil(bucket_next(take.tat, take.micros, take.interval, take.burst, 1) / 1000))
  end
  return event < math.huge and math.max(event, now) or nil
end

-- plan_look finds out who has to look again: the caller, after so many milliseconds, or another, whom the bell wakes.
local function plan_look(take)
  local list, stop = take.list, take.stop
  local stays, empties = take.taken < take.count, stop < list.first or stop > list.last
  take.mine = take.guard and string.match(take.guard, ' (.*)$') == take.name
  take.looks, take.wait, take.rings, take.arms = stays or take.woken or take.mine, -1, false, false
  local may_ring = take.looks and bell_is_here()
  if take.looks then
    local event = next_take(take, empties)
    if event and (take.mine or not guarded(take.guard, take.now, event)) then
      take.wait = stays and math.max(event - take.now, 0) or -1
      take.rings = not stays and may_ring
    end
    take.arms = empties and may_ring and not take.rings
  end
end

-- save_look writes it.
local function save_look(take)
  if not take.looks then
    return
  end
  if take.rings then
    ring()
  else -- by the options of others, perhaps
    redis.call('HSET', QUEUE, 'waits', (take.full or take.waits == 'limit') and 'limit' or 'jobs')
  end
  if take.wait >= 0 then
    redis.call('HSET', QUEUE, 'guard', string.format('%.0f ', take.now + take.wait) .. take.name)
  elseif take.guard and (take.mine or not guarded(take.guard, take.now, math.huge)) then
    redis.call('HDEL', QUEUE, 'guard')
  end
  if take.arms then
    arm(take.list)
  end
end
