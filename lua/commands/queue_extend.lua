-- Extends leases.
--
-- KEYS  1 the sorted set of times, see shared/jobs.lua
-- ARGV  1 the lease in milliseconds, 2… the members of the jobs
-- Reply for each job '1', or '0' if it is not leased under that member any more, as one string
-- Flags allow-oom
-- Cost  O(jobs * log(jobs leased and delayed)).
--
-- Safe because it has one key, its first write changes nothing, so OOM allows it, and extending a lease twice is no harm.

local now = redis.call('TIME')
local ends = '-' .. string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[1])
local scores = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, 2))
local replies = {}
redis.call('ZREM', KEYS[1], '') -- changes nothing
for i, score in ipairs(scores) do
  local holds = score and tonumber(score) < 0
  replies[i] = holds and '1' or '0'
  if holds then
    redis.call('ZADD', KEYS[1], 'XX', ends, ARGV[i + 1])
  end
end
return table.concat(replies)
