-- Gives back tokens that the caller does not use: it waits for them no more, or has not heard of them.
--
-- requires: shared/counted shared/holes
--
-- KEYS  1 the state, see commands/limit_bucket.lua
-- ARGV  1 to 3 see shared/operation.lua, 4 how many, 5 to 7 what the take returned: the tat before, the tat after, and the time
-- Reply 1 if they were given back, 0 if the bucket is full again
-- Flags allow-oom
-- Cost  O(1), and the length of holes, which is bounded.
--
-- If nobody has taken any after them, the tat goes back to what it was, as if they had not been taken, and so on for the holes
-- before them. If somebody has, they are a hole, see shared/holes.lua, whose id is the tat after.
--
-- Safe because it reads the record and the state before the first write, HDEL, which OOM allows.

local state, reply = read_state('tat', 'holes')
if not state then
  return tonumber(reply) or reply
end
local n, before, after, time = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local now = microseconds()
local tat, holes = state[3], state[4] or ''
write_nothing()
if not tat then -- the bucket is full
  return save_state(0, now, now)
end
if tat == after then
  tat = before
else
  holes = add_hole(holes, now, after, before, time, n)
end
local start, rest = close_hole(holes, tat)
while start do
  tat, holes = start, rest
  start, rest = close_hole(holes, tat)
end
return save_state(1, tonumber(tat), now, 'tat', tat, 'holes', holes)
