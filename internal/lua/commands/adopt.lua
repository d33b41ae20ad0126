-- Makes the plain list at the list's plain key a part of the list, and turns long shards into full ones, in bounded steps.
--
-- requires: shared/session shared/sweep shared/take_over shared/carve
--
-- KEYS  1 meta; there is a plain key, see beside.lua
-- ARGV  1 to 3 see shared/operation.lua, 4 the capacity if this creates the list, 5 the end that the elements of the plain list
--       join, 'L' or 'R', or '' if that is unknown, or 'none' to leave the plain key alone
-- Reply how many elements it has moved, and how many are left to move, as words: of the plain list, and of long shards beyond
--       their capacity. It is done once nothing is left. An error changes nothing
-- Cost  O(1): STEP elements, or those of one shard.
--
-- An empty list takes the plain list as its only shard, by one RENAME, whatever its length. A list that has elements fills its
-- end shard, and takes the rest of the plain list as the next one, likewise; or as many elements as go into a step, if its end
-- shard is a long one already, and not the only one.
--
-- Nothing else changes: at every moment the list is what it was, with the elements of the plain list at that end.
--
-- Safe because it reads every key before the first write. That one is a RENAME, or PEXPIRE of the record, which OOM allows,
-- and then what follows.

local STEP = 1000
local NEWCOMERS = PLAIN
PLAIN = nil

local done, failure = replay()
if done or failure then
  return done or failure
end
local list, problem = open()
if problem then
  return problem
end
local left = ARGV[5] == 'L'
local cap = tonumber(ARGV[4])

-- decide gives the list its capacity, if it consists of a long shard: nothing depends on the former one yet.
local function decide()
  local alone = list.first == list.last and list.cap ~= cap
  if alone and redis.call('LLEN', list.shards .. list.first) > math.max(list.cap, cap) then
    list.cap = cap
    save_list(list)
  end
end

local waiting = 0
if ARGV[5] ~= 'none' then
  waiting = redis.pcall('LLEN', NEWCOMERS)
  if type(waiting) == 'table' and string.find(waiting.err, 'WRONGTYPE', 1, true) then
    return waiting
  elseif is_moving(waiting) or is_away(NEWCOMERS) then
    return redis.error_reply('TRYAGAIN the plain key is moving to another node')
  end
end

-- take_some fills the end shard, or moves a step to it if it is a long one. It returns the number of elements it has moved.
local function take_some()
  local id = left and list.first or list.last
  local size
  size, problem = shard_length(list, id)
  local beyond = list.shards .. (id + (left and -1 or 1))
  if not size or is_moving(redis.pcall('EXISTS', META, beyond, PREFIX .. 'never')) then
    return nil, problem or redis.error_reply('TRYAGAIN the list is moving to another node')
  end
  redis.call('HDEL', META, 'armed') -- changes nothing, and OOM allows it
  decide()
  local room = list.first == list.last and math.max(0, list.cap - size) or list.cap - size
  local moves = math.min(waiting, room < 0 and STEP or room)
  if moves > 0 then
    shift(NEWCOMERS, list.shards .. id, left, moves)
  end
  if moves < waiting and room >= 0 then
    redis.call('RENAME', NEWCOMERS, beyond)
    set_ttl(list, id + (left and -1 or 1), list.expires and redis.call('HGET', META, 'ttl'))
    list[left and 'first' or 'last'] = id + (left and -1 or 1)
    save_list(list)
  end
  return moves
end

-- split carves, within a step of which some elements have been moved. It returns how many have been then.
local function split(moved)
  redis.call('HDEL', META, 'armed') -- changes nothing, and OOM allows it
  decide()
  for _, at_left in ipairs({ true, false }) do
    repeat
      local size = string.len(redis.call('LINDEX', list.shards .. (at_left and list.first or list.last), 0))
      local step = (moved == 0 or moved + list.cap <= STEP) and carve(list, at_left) or 0
      moved = moved + step
    until step == 0 or size * moved > CARVE_BYTES
  end
  return moved
end

local moved, known = 0, left or ARGV[5] == 'R'
if waiting > 0 and is_empty(list) then
  problem = take_over(list, NEWCOMERS, cap)
elseif not is_empty(list) then
  if waiting > 0 and known then
    moved, problem = take_some()
  end
  moved = moved and split(moved)
  if moved == 0 and waiting > 0 and not known then
    problem = redis.error_reply('UNKNOWNEND')
  end
end
if problem then
  return problem
end

local rest = waiting > 0 and redis.call('LLEN', NEWCOMERS) or 0
if not is_empty(list) then
  rest = rest + math.max(0, redis.call('LLEN', list.shards .. list.first) - list.cap)
  if list.first < list.last then
    rest = rest + math.max(0, redis.call('LLEN', list.shards .. list.last) - list.cap)
  end
end
sweep(list)
local result = moved .. ' ' .. rest
touch()
save_result(result)
return result
