-- Carries out a command that counts keys, if all of their lists are short and without meta: then each list is its key.
--
-- requires: shared/keys
--
-- KEYS  1 the meta of one of the lists
-- ARGV  1 the name of the command, 2 the number of lists, then their metas, then all keys
-- Reply that of the command, or nil if there is a meta or the command fails; then nothing has been done
-- Flags allow-oom
-- Cost  that of the command, and of EXISTS of the metas.
--
-- Safe because the command is the only one that writes.

local lists = tonumber(ARGV[2])
if redis.pcall('EXISTS', unpack(ARGV, 3, 2 + lists)) ~= 0 then -- or the slot moves, which others deal with
  return false
end
local reply = redis.pcall(ARGV[1], unpack(ARGV, 3 + lists))
return type(reply) == 'number' and reply
