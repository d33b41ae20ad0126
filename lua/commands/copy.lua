-- Copies the list, as COPY does.
--
-- requires: shared/transfer shared/searched
--
-- KEYS  see shared/transfer.lua
-- ARGV  1 to 5 see shared/transfer.lua; 6 '' to copy all shards; or how many shards to copy at the most; or that, and behind a
--       space each the name of the note and the ranges of shards that steps have copied, as for shared/searched.lua, and the
--       prefix of these copies, which is that of the new list
-- Reply see shared/transfer.lua; or MORE: nothing, and steps must come before
-- Cost  O(elements that no step has copied), three calls for each of their shards, and one for each other. The sweep is
--       bounded.
--
-- Safe for what shared/transfer.lua says. The first shard to be copied is one at an end, which no step copies for good, so OOM
-- refuses the command with nothing changed. The note is dropped: a step that comes late must not copy over a shard of the new
-- list.

local from, to, must_ring = open_both(true)
if not from then
  return to
end

-- find_shards returns the shards that no step has copied, or nil and the error for one that is not here; or MORE if there are
-- more than most.
local function find_shards(most)
  local shards = {}
  for id = from.first, from.last do
    if not known_at(id) then
      local size, reason = shard_length(from, id)
      if not size then
        return nil, reason
      end
      shards[#shards + 1] = id
    end
    if #shards > most then
      return nil, MORE
    end
  end
  return shards
end

-- adopt_copies makes the shards that steps have copied those of the new list. What has been popped meanwhile is to be swept.
local function adopt_copies(prefix, ranges)
  to.shards, to.own, to.first = prefix, nil, from.first
  to.searches = to.searches and ''
  local low, high = from.first, from.last
  for first, last in string.gmatch(ranges, '(%-?%d+):(%-?%d+),') do
    low, high = math.min(low, first), math.max(high, last)
  end
  if low < from.first or high > from.last then
    to.own = { lo = low, hi = high, shards = prefix }
    to.stale = to.stale or {}
    table.insert(to.stale, to.own)
  end
end

-- keep_copies keeps the shards that steps have copied, and makes them expire as those of the list do. One that is not there any
-- more is copied again.
local function keep_copies(ttl)
  for id = from.first, from.last do
    local key = to.shards .. id
    local kept = ttl and redis.call('PEXPIREAT', key, ttl) or redis.call('PERSIST', key)
    if kept == 0 and known_at(id) then
      redis.call('COPY', from.shards .. id, key, 'REPLACE')
    end
  end
end

-- copy makes new shards, with ids beyond those that are still to be swept, or those that steps have made, and then meta. It
-- returns an error if it cannot.
local function copy()
  local most, ranges, copies = string.match(ARGV[6], '^(%d*) ?%S* ?(%S*) ?(.*)$')
  local shards, problem = find_shards(tonumber(most) or math.huge)
  if problem then
    return problem
  end
  if copies ~= '' then
    adopt_copies(copies, ranges)
  end
  identify(to)
  local shift = to.first - from.first
  for _, id in ipairs(shards) do
    redis.call('LLEN', to.shards .. (id + shift))
  end
  local expiry = redis.call('HMGET', KEYS[1], 'expires', 'ttl', 'walk')
  local meta_ttl = redis.call('PTTL', KEYS[1])
  for _, id in ipairs(shards) do
    redis.call('COPY', from.shards .. id, to.shards .. (id + shift), 'REPLACE')
  end
  if copies ~= '' then
    keep_copies(expiry[2])
  end
  to.last = from.last + shift
  redis.call('HDEL', META, 'expires', 'ttl', 'walk')
  to.cap, to.armed, to.join, to.expires = from.cap, false, from.join, from.expires
  to.more = expiry[1] or expiry[2] or expiry[3]
  to.part = from.part and from.part + shift
  to.begun, to.steps = from.begun, from.steps
  for _, step in ipairs(to.steps or {}) do
    step.id = step.id + shift
  end
  save_list(to)
  for i, field in ipairs({ 'expires', 'ttl', 'walk' }) do
    if expiry[i] then
      redis.call('HSET', META, field, field == 'walk' and expiry[i] + shift or expiry[i])
    end
  end
  redis.call('PERSIST', META)
  if meta_ttl > 0 then
    redis.call('PEXPIRE', META, meta_ttl)
  end
end

-- from_plain makes a copy of the plain list of a restored list the only shard of the other, and rings. It returns an error if
-- it cannot.
local function from_plain()
  identify(to)
  must_ring, to.join = false, from.join
  local shard = to.shards .. to.first
  if is_moving(redis.pcall('EXISTS', from.restored, shard)) then
    return redis.error_reply('TRYAGAIN the list is moving to another node')
  end
  redis.call('COPY', from.restored, shard, 'REPLACE')
  return take_over(to, shard, 0)
end

-- to_plain makes a copy of the list the plain list of a restored one. It returns an error if it cannot.
local function to_plain()
  local key = to.restored
  if is_moving(redis.pcall('EXISTS', key, from.shards .. from.first, PREFIX .. 'never')) then
    return redis.error_reply('TRYAGAIN the list is moving to another node')
  end
  local _, problem = find_shards(math.huge)
  if problem then
    return problem
  end
  redis.call('COPY', from.shards .. from.first, key, 'REPLACE')
  for id = from.first + 1, from.last do
    for start = 0, redis.call('LLEN', from.shards .. id) - 1, MOVE_STEP do
      local elements = redis.call('LRANGE', from.shards .. id, start, start + MOVE_STEP - 1)
      push_values('RPUSH', key, elements, 1, #elements)
    end
  end
  keep_expiry(to, from.expires and redis.call('HGET', KEYS[1], 'expires'), from.restored)
  to.armed, to.join = false, from.join
  save_list(to)
end

local problem = begin_search(from, ARGV[6]) or (to.restored and to_plain or from.restored and from_plain or copy)()
if problem == MORE then
  use(1)
  touch()
  save_result('MORE')
end
if problem then
  return problem
end
local verdict = complete(to, must_ring)
use(1)
end_search(from)
shrink(from)
save_result(verdict)
return verdict
