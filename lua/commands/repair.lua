-- A step of a repair: of a list whose meta is lost, or that lacks shards.
--
-- requires: shared/length shared/take_in shared/ring shared/emptied shared/knows_shard
--
-- KEYS  1 meta
-- ARGV  1 'look';
--       or 'lengths': 2 the prefix of the shards' keys, 3 'persist' to take their TTLs away, 4… ids;
--       or 'attach': 2 the prefix, 3 and 4 the first and the last shard, 5 the capacity, 6 its changes as in
--       shared/capacities.lua, 7 the end that newcomers join, as in shared/pointers.lua;
--       or 'join': 2 the prefix, 3 the shard, 4 the end of the list that its elements join;
--       or 'misfits': 2 the shard to begin at, or '';
--       or 'close': 2 and 3 the first and the last of shards that are missing, 4 how many others to move at the most;
--       or 'fit': 2 a shard between the ends
-- Reply look: the prefix, or none if the list is empty or short; the number of elements at the plain key.
--       lengths: of each, 0 if there is no such shard. attach: 1, or 0 if there is another list.
--       join: how many elements are left, 0 if the list has them by now, or -1 if there is no list to join.
--       misfits: the shard to continue at, or ''; the number of elements; and for each shard that is missing, or does not have
--       as many as its capacity: its id, its length, its capacity, and how many elements are before it.
--       close: the shards that are missing then, or nothing. fit: OK
-- Flags allow-oom
-- Cost  O(1): MISFITS_STEP shards, those of the arguments, or O(capacity).
--
-- Safe because each step keeps all elements in the list, or out of it, and the next one sees what a step has done: a repair
-- that has died is begun again. It reads each key before the first write, HDEL, which OOM allows.

local MISFITS_STEP = 500

local list, problem = open()
if problem then
  return problem
end
local steps = {}
local has_none = is_empty(list) or list.short ~= nil
if is_away(PREFIX .. 'never') then
  return redis.error_reply('TRYAGAIN the list is moving to another node')
elseif list.restores or list.gathers or list.restored and not list.short then
  return redis.error_reply('REVERSED Restore was called')
end

-- set_cap gives a shard another capacity, and no other.
local function set_cap(id, cap)
  local after = cap_at(list, id + 1)
  if cap_at(list, id) == cap then
    return
  end
  list.begun = list.begun or list.cap
  local changes = { { id = id, cap = cap }, { id = id + 1, cap = after } }
  for _, step in ipairs(list.steps or {}) do
    if step.id ~= id and step.id ~= id + 1 then
      changes[#changes + 1] = step
    end
  end
  table.sort(changes, function(a, b) return a.id < b.id end)
  list.steps = changes
end

function steps.look()
  local waiting = PLAIN and redis.pcall('LLEN', PLAIN)
  return { has_none and '' or list.shards, type(waiting) == 'number' and waiting or 0 }
end

function steps.lengths()
  local lengths = {}
  for i = 4, #ARGV do
    lengths[i - 3] = redis.call('LLEN', ARGV[2] .. ARGV[i])
  end
  for i = 4, ARGV[3] == 'persist' and #ARGV or 0 do
    if not knows_shard(list, ARGV[2], tonumber(ARGV[i])) then
      redis.call('PERSIST', ARGV[2] .. ARGV[i])
    end
  end
  return lengths
end

function steps.attach()
  local first, last = tonumber(ARGV[3]), tonumber(ARGV[4])
  if not has_none then
    return list.shards == ARGV[2] and 1 or 0 -- a former copy of this step has done it, or another repair
  end
  local found = { shards = ARGV[2] }
  for _, id in ipairs({ first, last }) do
    if redis.call('LLEN', found.shards .. id) == 0 then
      return missing(found, id)
    end
  end
  local rings = list.armed
  redis.call('HDEL', META, 'armed') -- changes nothing, and OOM allows it
  list.short, list.restored, list.has_meta, list.armed = nil, nil, true, false
  list.shards, list.first, list.last, list.cap, list.join = ARGV[2], first, last, tonumber(ARGV[5]), tonumber(ARGV[7])
  for _, range in ipairs(list.stale or {}) do
    list.own = range.shards == list.shards and range or list.own
  end
  for id, cap in string.gmatch(ARGV[6], '(%-?%d+):(%d+)') do
    list.begun, list.steps = list.begun or list.cap, list.steps or {}
    table.insert(list.steps, { id = tonumber(id), cap = tonumber(cap) })
  end
  save_list(list)
  redis.call('PERSIST', META)
  if rings then
    ring()
  end
  return 1
end

function steps.join()
  local key, left = ARGV[2] .. ARGV[3], ARGV[4] == 'L'
  if has_none then
    return -1
  elseif knows_shard(list, ARGV[2], tonumber(ARGV[3])) then
    return 0
  end
  local there, reason = shard_length(list, left and list.first or list.last)
  if not there then
    return reason
  end
  local size = redis.call('LLEN', key)
  if size > 0 then
    redis.call('HDEL', META, 'armed') -- changes nothing, and OOM allows it
    redis.call('PERSIST', key)
    take_in(list, key, size, pushed_at(left))
  end
  return redis.call('LLEN', key)
end

function steps.misfits()
  local id = math.max(tonumber(ARGV[2]) or list.first, list.first)
  local stop = math.min(id + MISFITS_STEP - 1, list.last)
  local reply, before = { '', 0 }, 0
  for at = id, has_none and id - 1 or stop do
    local size, cap = redis.call('LLEN', list.shards .. at), cap_at(list, at)
    local is_end = at == list.first or at == list.last
    if size == 0 or not is_end and size ~= cap and at ~= list.part then
      for _, number in ipairs({ at, size, cap, before }) do
        reply[#reply + 1] = tostring(number)
      end
    end
    before = before + size
  end
  reply[1], reply[2] = not has_none and stop < list.last and tostring(stop + 1) or '', before
  return reply
end

-- move moves a shard that is beside others that are missing, by so many ids.
local function move(id, by)
  local cap = cap_at(list, id)
  redis.call('RENAME', list.shards .. id, list.shards .. (id + by))
  set_ttl(list, id + by, list.expires and list.ttl) -- the TTL cursor may have passed it
  set_cap(id + by, cap)
  if list.part == id then
    list.part = id + by
  end
end

function steps.close()
  local from, to, most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
  if has_none then
    return {}
  end
  from, to = math.max(from, list.first), math.min(to, list.last)
  for id = from, to do
    if redis.call('LLEN', list.shards .. id) > 0 then
      return {}
    end
  end
  if from > to then -- others have moved the pointers meanwhile
    return {}
  end
  local widest = to - from + most -- more may be missing beside them
  while to - from < widest and from > list.first and redis.call('LLEN', list.shards .. (from - 1)) == 0 do
    from = from - 1
  end
  while to - from < widest and to < list.last and redis.call('LLEN', list.shards .. (to + 1)) == 0 do
    to = to + 1
  end
  local width = to - from + 1
  local left = from - list.first <= list.last - to
  local id, step, stop = to + 1, 1, math.min(list.last, to + most)
  if left then
    id, step, stop = from - 1, -1, math.max(list.first, from - most)
  end
  redis.call('HDEL', META, 'armed') -- changes nothing, and OOM allows it
  while (stop - id) * step >= 0 and redis.call('LLEN', list.shards .. id) > 0 do
    move(id, -step * width)
    id, from, to = id + step, from + step, to + step
  end
  if from <= list.first and to >= list.last then
    on_emptied(list)
    return {}
  end
  local whole = from <= list.first or to >= list.last
  if from <= list.first then
    list.first = to + 1
  elseif to >= list.last then
    list.last = from - 1
  end
  save_searches(list, list.first, list.last)
  save_list(list)
  return whole and {} or { tostring(from), tostring(to) }
end

function steps.fit()
  local id = tonumber(ARGV[2])
  local size = redis.call('LLEN', list.shards .. id)
  if not has_none and id > list.first and id < list.last and id ~= list.part and size > 0 then
    redis.call('HDEL', META, 'armed') -- changes nothing, and OOM allows it
    set_cap(id, size)
    save_searches(list, list.first, list.last)
    save_list(list)
  end
  return redis.status_reply('OK')
end

return steps[ARGV[1]]()
