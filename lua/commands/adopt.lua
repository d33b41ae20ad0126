-- Makes the plain list at the list's plain key a part of the list, and turns long shards into full ones, in bounded steps.
--
-- requires: shared/session shared/length shared/sweep shared/take_in shared/identity
--
-- KEYS  1 meta; there is a plain key, see shared/keys.lua
-- ARGV  1 to 3 see shared/operation.lua, 4 the capacity if this creates the list, 5 the end that newcomers join, as in
--       shared/pointers.lua, or '' if the caller does not know it, or 'none' to leave the plain key alone, 6 'begin' in the
--       first step
-- Reply how many elements it has moved, and how many are left to move, as words: of the plain list, and of long shards beyond
--       their capacity. It is done once nothing is left. An error changes nothing
-- Flags allow-oom
-- Cost  O(1): MOVE_STEP elements or MOVE_BYTES.
--
-- Nothing else changes: at every moment the list is what it was, with the elements of the plain list at their end. A first step
-- ends what commands/restore.lua has begun, or done. Later ones refuse to.
--
-- Safe because it reads every key before the first write. That one is a RENAME or HDEL, or PEXPIRE of the record, which OOM
-- allows, and then what follows.

local NEWCOMERS = PLAIN
local splits_only = ARGV[5] == 'none'
PLAIN = nil

local done, failure = replay()
if done or failure then
  return done or failure
end
local list, problem = open()
if problem then
  return problem
end
local cap = tonumber(ARGV[4])
if not splits_only and (list.restores or list.restored) and ARGV[6] ~= 'begin' then
  return redis.error_reply('REVERSED Restore was called meanwhile')
end

-- read_ends returns what keeps the end shards of the list, and the part, from being read, if anything does.
local function read_ends()
  for _, id in ipairs(is_empty(list) and {} or { list.first, list.last, list.part }) do
    local size, reason = shard_length(list, id)
    if not size then
      return reason
    end
  end
end

-- begin_again makes a list that is being restored, or was, an ordinary one. The plain list is taken over next.
local function begin_again()
  redis.call('HDEL', META, 'restores')
  list.restores = nil
  if list.restored then
    list.restored, list.shards, list.last, list.cap = nil, false, list.first - 1, 0
  end
  if is_empty(list) and not (list.armed or list.records or list.stale) then
    redis.call('DEL', META)
    list.shards, list.old_records = false, nil
    return
  end
  identify(list)
  save_list(list)
  if is_empty(list) and not list.stale then
    expire_idle(list)
  end
end

-- decide gives the list its capacity, if it consists of a long shard: nothing depends on the former one yet.
local function decide()
  if list.first == list.last and redis.call('LLEN', list.shards .. list.first) > math.max(list.cap, cap) then
    list.cap = capacity_beside(list, cap)
    save_list(list)
  end
end

-- split carves as much as the script may yet move. It tells whether it has to wait for the slot.
local function split()
  local waits = false
  for _, at_left in ipairs({ true, false }) do
    repeat
      local number, moves = carve(list, at_left)
      waits = waits or moves
    until number == 0
  end
  return waits
end

problem = read_ends()
if problem then
  return problem
end
local says = tonumber(ARGV[5])
local waiting, was_empty = 0, is_empty(list)
if not splits_only then
  waiting, problem = newcomers_at(list.restored and no_list() or list, NEWCOMERS, says)
  if not waiting then
    return problem
  end
  if list.restores or list.restored then
    begin_again()
    was_empty = is_empty(list)
  end
  if waiting == 0 or not was_empty then
    take_newcomers(list, NEWCOMERS, waiting, says)
  else
    problem = take_over(list, NEWCOMERS, cap, says)
    if problem then
      return problem
    end
  end
end
if not was_empty then
  redis.call('HDEL', META, 'armed') -- changes nothing, and OOM allows it
  decide()
  if split() and MOVED == 0 then
    return redis.error_reply('TRYAGAIN the list is moving to another node')
  end
end

local rest = waiting > 0 and redis.call('LLEN', NEWCOMERS) or 0
if not is_empty(list) then
  local head, tail = measure(list)
  rest = rest + unsplit(list, head, tail)
end
sweep(list)
local result = MOVED .. ' ' .. rest
touch()
save_result(result)
return result
