-- Carries out a command of another type on keys that lists may stand in for, if none of these lists has elements.
--
-- requires: shared/list
--
-- KEYS  the plain key of each list, then the other keys of the command
-- ARGV  1 the number of lists, 2 of the other metas; 3 'run', or 'check' to leave the command to the client; 4 the version of
--       RESP in which the command replies; then the meta of each list; that of each list to which a key of the command would
--       belong if that list exists; for each list where among the words of the command its key is, or 0 if the command would
--       replace it; then the words, without any for a check of a command that may wait, which scripts must not
-- Reply that of the command; for 'check' 1, or the error of the command
-- Cost  that of the command, and two calls a list.
--
-- A long list is shown to the command as its first shard, and a short one is at the key, so that Redis itself finds the error:
-- a command of another type fails on any list, or takes it for what it is, and changes nothing. A command that replaces what it
-- finds must not see it.
--
-- The metas are not declared: while the slot moves, Redis refuses a script of whose keys only some are here. Then a plain key
-- that is here tells that its list is empty. If neither it nor meta is here, the command waits for the slot.
--
-- Safe because the command is the only one that writes.

local WRONGTYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value'
PLAIN = nil -- what is at the plain keys is the command's business
local lists, others, checks = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == 'check'
local words = {}
for i = 5 + lists + others + lists, #ARGV do
  words[#words + 1] = ARGV[i]
end

for i = 5 + lists, 4 + lists + others do
  local layout = redis.pcall('HGET', ARGV[i], 'layout')
  if type(layout) == 'string' then
    return redis.error_reply('RESERVED the key belongs to the sharded list that has ' .. ARGV[i])
  end
end

-- find opens the list at META, or returns nil if the plain key holds something else; or nil and the error.
local function find(plain)
  if is_moving(redis.pcall('EXISTS', META, plain)) then
    if redis.pcall('EXISTS', plain) == 1 then
      return nil
    elseif redis.pcall('EXISTS', META) ~= 1 then
      return nil, redis.error_reply('TRYAGAIN the list, if there is one, is moving to another node')
    end
  end
  return open('reading', true)
end

local met = false
for i = 1, lists do
  META, PREFIX = ARGV[4 + i], string.sub(ARGV[4 + i], 1, -5)
  local at = tonumber(ARGV[4 + lists + others + i])
  local size = at == 0 and redis.pcall('LLEN', KEYS[i])
  if type(size) == 'number' and size > 0 then
    return redis.error_reply(WRONGTYPE) -- as for a long list
  end
  local list, problem = find(KEYS[i])
  if problem then
    return problem
  end
  if list and not is_empty(list) then
    met = true
    if at == 0 then
      return redis.error_reply(WRONGTYPE)
    end
    words[at] = list.shards .. list.first
  end
end
if checks and not met then
  return 1
end
if redis.setresp and not checks then
  redis.setresp(tonumber(ARGV[4]))
end
local reply = #words > 0 and redis.pcall(unpack(words))
if checks and not (type(reply) == 'table' and reply.err) then
  return redis.error_reply(WRONGTYPE)
end
return reply
