-- Sets the time at which a spread list expires, or removes it.
--
-- requires: shared/spread_pointers
--
-- KEYS  1 meta
-- ARGV  1 the generation and 2 the stamp of the expiry that the caller has read; 3 and 4 when: 'in' and milliseconds, 'at' and
--       a Unix time in milliseconds, or 'never'; 5 those of the words NX, XX, GT and LT that apply; 6 a name for this
--       operation; 7 the stamp of an expiry that a shard has found void, or 0
-- Reply as that of commands/spread_pointers.lua, and a word: 'set'; 'no' if the condition is not met; 'past' if the time has
--       come, and the caller is to delete the list; 'changed' if generation and stamp are others by now, or a delete is under
--       way
-- Cost  O(1).
--
-- The caller tells the shards at the ends. Safe because it may run twice: a late copy finds another stamp. OOM allows its first
-- write.

local NEVER = math.huge
local FAR = 2 ^ 53 -- numbers up to here are exact

local p, text = read_pointers()
if not p then
  return false
end
local time, stamp, by = read_expiry()
local function verdict(word)
  local all = reply()
  all[4] = word
  return all
end
if by == ARGV[6] then
  write_again(text)
  return verdict('set')
elseif p.deleting or p.generation ~= tonumber(ARGV[1]) or stamp ~= tonumber(ARGV[2]) then
  write_again(text)
  return verdict('changed')
end
local now = math.floor(microseconds() / 1000)
local current = (time == 0 or stamp <= tonumber(ARGV[7])) and NEVER or time
local wanted = ARGV[3] == 'never' and NEVER or tonumber(ARGV[4]) + (ARGV[3] == 'in' and now or 0)
local function only(word)
  return string.find(ARGV[5], word, 1, true)
end
if only('NX') and current < NEVER
  or only('XX') and current == NEVER
  or only('GT') and wanted <= current
  or only('LT') and wanted >= current
  or wanted == NEVER and current == NEVER then
  return verdict('no')
elseif wanted <= now then
  return verdict('past')
end
redis.call('HDEL', META, 'never') -- OOM allows this, and then what follows
save_expiry(wanted == NEVER and 0 or math.min(wanted, FAR), p.next, ARGV[6])
p.next = p.next + 1
save_pointers(p)
return verdict('set')
