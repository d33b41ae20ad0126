-- Fences an operation whose outcome nobody waits for any more: copies of it that arrive later have no effect.
--
-- requires: shared/session
--
-- KEYS  1 meta, or the dedup record itself
-- ARGV  1 to 3 see shared/operation.lua; 4 if the operation is only asked after: copies of it may have effect
-- Reply the result if the operation has been done, or ! for an error; else nil
-- Flags allow-oom
-- Cost  O(1).
--
-- Safe because it writes the dedup record only, and OOM allows its first write. While the slot moves, a record that is declared
-- is found, or made, on the node that has it or would get it. Copies of the operation that reach the other node find no record
-- there, and are refused.

local FENCED = 'FENCED operation of a session that has given it up'

if not FIELD and string.sub(KEYS[1], -#ARGV[1]) == ARGV[1] then
  RECORD, POPPED = KEYS[1], nil
end
local done, failure = replay()
if done then
  if RECORD == KEYS[1] then
    redis.pcall('PEXPIRE', RECORD .. ':popped', LIFE) -- if it is here
  end
  return done
elseif failure and string.find(failure.err, 'FENCED', 1, true) then
  return false -- by this script, whose reply was lost
elseif failure and (string.find(failure.err, 'TRYAGAIN', 1, true) or string.find(failure.err, 'STALE', 1, true)) then
  return failure
elseif failure then
  return '!' -- the result is an error
elseif ARGV[4] then
  return false
end
touch()
save_error(FENCED)
return false
