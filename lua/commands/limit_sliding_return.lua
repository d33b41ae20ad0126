-- Gives back what a sliding window has admitted, and the caller does not use: it waits for it no more, or has not heard of it.
--
-- requires: shared/log
--
-- KEYS  1 the log, see shared/log.lua
-- ARGV  1 to 3 see shared/operation.lua, 4 how many, 5 and 6 the number and the time of the entry
-- Reply 1 if it was given back, 0 if it is not in the log any more
-- Flags allow-oom
-- Cost  O(1), and up to 1,000 entries at the end of the log that were given back before.
--
-- It leaves the log once nothing is behind it. Until then it is marked, counts, and is a hole, see shared/holes.lua.
--
-- Safe because it reads the record and the log before the first write, HDEL, which OOM allows.

local RETURN_STEP = 1000

local log, reply = open_log()
if not log then
  return tonumber(reply) or reply
end
local number, time = tonumber(ARGV[5]), tonumber(ARGV[6])
local now = microseconds()
write_nothing()
if number < log.first or number >= log.next or entry_at(number) ~= time then
  return save_state(0, now, now)
end
redis.call('HSET', META, ARGV[5], redis.call('HGET', META, ARGV[5]) .. ' -')
local holes = add_hole(log.holes, now, ARGV[5], '-', ARGV[6], ARGV[4])
local stop = math.max(log.first, log.next - RETURN_STEP)
while log.next > stop do
  local _, before, returned = entry_at(log.next - 1)
  if returned == '' then
    break
  end
  log.next, log.total = log.next - 1, before
  redis.call('HDEL', META, whole(log.next))
  local _, rest = close_hole(holes, whole(log.next))
  holes = rest or holes
end
return save_state(1, now, now, 'next', whole(log.next), 'total', whole(log.total), 'holes', holes)
