-- Puts the end shard aside, for a plain command to push onto it, see shared/aside.lua.
--
-- requires: fast/begin shared/aside shared/capacities
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 'L' or 'R', 5 the number of values, 6 their bytes, 7 the capacity, as in push.lua
-- Reply 1; or 0 if the push is none of the common cases, or has been done; or the error of RENAME
-- Flags allow-oom
-- Cost  O(1).
--
-- Safe because the first write is RENAME, which OOM allows, and which is refused while the slot moves.

local NEW_SHARDS = 16 -- that a push may need
local COUNT = tonumber(ARGV[5])
local crowded = HAS_ELEMENTS and ARGV[7] + 0 <= 0 and is_crowded(CAP, ARGV[6] / COUNT, ARGV[7] + 0)
if crowded or not (HAS_ELEMENTS and not EXPIRES and RECORD and COUNT <= NEW_SHARDS * CAP and JOIN > 0) then
  return 0
end
local others = 0
if SPAN > 0 then
  local far = redis.call('LLEN', SHARDS .. (LEFT and LAST or FIRST))
  if far == 0 then
    return 0
  end
  others = far + (SPAN - 1) * CAP
end
local size = redis.call('LLEN', NEAR)
if size == 0 or size > CAP then
  return 0
end
local renamed = redis.pcall('RENAME', NEAR, PREFIX .. aside_name())
if renamed.err then
  return renamed
end
redis.call('HSET', META, 'layout', table.concat({ '3!', aside_name(), ARGV[4], size, others, WRITTEN }, ' '))
return 1
