-- Carries out a command that counts keys, if all of their lists are short and without meta: then each list is its key.
--
-- requires: shared/keys
--
-- KEYS  1 the meta of one of the lists
-- ARGV  1 the name of the command, 2 a character for each key: '{' if '{key}:meta' is the meta of a list, '=' if 'key:meta' is,
--       else '-'; then the keys
-- Reply that of the command, or nil if there is a meta or the command fails; then nothing has been done
-- Flags allow-oom
-- Cost  that of the command, and of EXISTS of the metas.
--
-- Safe because the command is the only one that writes.

local metas = {}
for i = 1, #ARGV[2] do
  local form = string.byte(ARGV[2], i)
  if form == 123 then -- '{'
    metas[#metas + 1] = '{' .. ARGV[2 + i] .. '}:meta'
  elseif form == 61 then -- '='
    metas[#metas + 1] = ARGV[2 + i] .. ':meta'
  end
end
metas[#metas + 1] = PREFIX .. 'never' -- one key that is away is a redirection, and no error
if redis.pcall('EXISTS', unpack(metas)) ~= 0 then -- or the slot moves, which others deal with
  return false
end
local reply = redis.pcall(ARGV[1], unpack(ARGV, 3))
return type(reply) == 'number' and reply
