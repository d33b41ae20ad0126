-- Turns the list into the plain list of its name, in bounded steps.
--
-- requires: shared/session shared/sweep shared/take_in shared/gather shared/length
--
-- KEYS  1 meta; there is a plain key, see shared/keys.lua
-- ARGV  1 to 3 see shared/operation.lua, 4 the end that newcomers join, as in shared/pointers.lua, or '' if the caller does not
--       know it, 5 'begin' in the first step
-- Reply how many elements it has moved, and how many are left to move, as words. It is done once nothing is left. An error
--       changes nothing
-- Flags allow-oom
-- Cost  O(1): MOVE_STEP elements or MOVE_BYTES.
--
-- The shards are merged until there is one. That becomes the plain key, by one RENAME. From then on the pointers say that the
-- plain key is the list, and all operations work on it, whether they watch it or not: processes that use the library and
-- processes that do not see the same. That stays so when the list is empty, until commands/adopt.lua.
--
-- Safe because it reads every key before the first write, HDEL, which OOM allows, and then what follows.

local KEY = PLAIN
PLAIN = nil

local done, failure = replay()
if done or failure then
  return done or failure
end
local list, problem = open()
if problem then
  return problem
end
if not (list.restores or list.restored) and ARGV[5] ~= 'begin' then
  return redis.error_reply('REVERSED Adopt was called meanwhile')
end
local function save_and_reply(left)
  local result = MOVED .. ' ' .. left
  sweep(list)
  touch()
  save_result(result)
  return result
end
if list.restored then
  return save_and_reply(0)
end

local head, tail = measure(list)
if not head then
  return tail
end
local says = tonumber(ARGV[4])
local waiting, reason = newcomers_at(list, KEY, says)
if waiting and waiting > 0 and is_empty(list) then
  problem = take_over(list, KEY, 0, says)
elseif waiting then
  take_newcomers(list, KEY, waiting, says)
end
problem = problem or reason
if problem then
  return problem
end
if not list.restores then
  list.restores = '1'
  save_list(list)
  redis.call('HSET', META, 'restores', list.restores)
  redis.call('PERSIST', META)
end

-- finish makes the only shard the plain key, and says so in the pointers.
local function finish()
  local expires = list.expires and redis.call('HGET', META, 'expires')
  if not is_empty(list) then
    redis.call('RENAME', list.shards .. list.first, KEY)
    redis.call('PERSIST', KEY)
    if expires then
      redis.call('PEXPIREAT', KEY, expires)
    end
  end
  redis.call('HDEL', META, 'expires', 'ttl', 'walk', 'restores')
  list.restored, list.restores, list.expires, list.more, list.own = KEY, nil, nil, nil, nil
  list.last = list.first - 1
  save_list(list)
  redis.call('PERSIST', META)
end

problem = gather(list)
if problem then
  return problem
end
local left = redis.call('LLEN', KEY)
if list.first < list.last then
  local length
  head, tail, length = measure(list)
  left = left + length - math.max(head, tail)
end
if left == 0 then
  finish()
end
return save_and_reply(left)
