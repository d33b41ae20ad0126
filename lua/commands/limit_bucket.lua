-- Takes tokens from a bucket, which gets new ones at a steady rate and holds up to a number of them.
--
-- requires: fast/limit_bucket shared/session
--
-- KEYS  1 the state: a hash with the fields tat, see shared/bucket.lua, and holes, see commands/limit_bucket_return.lua
-- ARGV  1 to 3 see shared/operation.lua, 4 the rate: how many tokens come in, 5 so many microseconds; 6 the burst: how many
--       the bucket holds, 7 how many to take, 8 how much later than now they may come, in microseconds
-- Reply see verdict in shared/limit.lua; what gives them back is the tat before, the tat after, and the time of the tokens
-- Cost  O(1): seven calls.
--
-- Safe because it reads the record and the state before the first write. That is HSET if it takes tokens, which OOM refuses
-- with nothing changed; a refusal writes its record only, and OOM allows it.

local done, failure = replay()
if done or failure then
  return done or failure
end
local result = take_tokens()
save_result(result)
return result
