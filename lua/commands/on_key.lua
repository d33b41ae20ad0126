-- Carries out commands on a short list, one after another and as they are, as one operation, which callers may share.
--
-- requires: fast/on_key shared/session
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua; then for each caller the number of commands, how many elements the list may have
--       before, or '' if none is added, and for each command the number of its words behind the key, its name, and those words
-- Reply a line for each command: ':' and a number, '+' and a status, or '-' and an error. Where the list would not stay short,
--       nothing is done for that caller and those behind, and there are no lines; '' if the list is not short
-- Cost  that of the commands.
--
-- Safe because nothing but the key and the record is written, and nobody waits for a list that has no meta. '' is a result,
-- which is recorded: its client carries out the commands by other operations, and a late copy of this one must not.

local done, failure = replay()
if done or failure then
  return done or failure
elseif FIELD then
  return redis.error_reply('ERR commands are not carried out on the key while the slot moves')
end
save_result('')
return ''
