-- Moves a pointer of a spread list.
--
-- requires: shared/spread_pointers
--
-- KEYS  1 meta
-- ARGV  1 'L' or 'R', 2 the epoch of that side with which the caller has acted, 3 what a shard has told: 'CLOSED', 'GONE', or
--       'STALE' if meta says the same as before; 4 the position of the border, or the epoch that the shard has seen; 5 the
--       stamp of an expiry that the shard has found void, or 0
-- Reply as that of commands/spread_pointers.lua
-- Flags allow-oom
-- Cost  O(1).
--
-- Safe because it may run twice: the epoch is another one then. OOM allows its first write. While a delete is under way,
-- pointers do not move.

local p, text = read_pointers()
local side = ARGV[1] == 'L' and 1 or 2
if not p then
  return false
elseif p.deleting or p.epochs[side] ~= tonumber(ARGV[2]) then
  write_again(text)
  return reply()
end
local other, outwards = 3 - side, side == 1 and -1 or 1
local voids
if ARGV[3] == 'CLOSED' then
  p.ids[side], p.borders[side] = p.ids[side] + outwards, tonumber(ARGV[4])
  local time, stamp, by = read_expiry()
  voids = time ~= 0 and stamp <= tonumber(ARGV[5]) and { 0, stamp, by }
elseif ARGV[3] == 'GONE' and p.ids[1] ~= p.ids[2] then
  p.ids[side] = p.ids[side] - outwards
  if p.ids[1] == p.ids[2] then
    p.borders[side] = p.borders[other]
  end
elseif ARGV[3] == 'GONE' then -- it would go past the other one: the list is empty here
  p.epochs[other], p.borders[side] = p.next, p.borders[other]
else
  p.next = math.max(p.next, tonumber(ARGV[4]) + 1)
end
p.epochs[side] = p.next
p.next = p.next + 1
redis.call('HDEL', META, 'never') -- OOM allows this, and then what follows
save_pointers(p)
if voids then
  save_expiry(unpack(voids))
end
return reply()
