-- Fences an operation whose outcome nobody waits for any more: copies of it that arrive later have no effect.
--
-- requires: shared/session
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/session.lua
-- Reply the result if the operation has been done, or ! for an error; else nil
-- Cost  O(1).
--
-- Safe because it writes the dedup record only, and OOM allows its first write.

local done, failure = replay()
if failure and not string.find(failure.err, '^TRYAGAIN') and not string.find(failure.err, '^STALE') then
  return '!' -- the result is an error
elseif done or failure then
  return done or failure
end
touch()
save_result('')
return false
