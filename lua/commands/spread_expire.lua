-- Sets the time at which a spread list expires, or removes it.
--
-- requires: shared/spread_pointers
--
-- KEYS  1 meta
-- ARGV  1 the generation and 2 the stamp of the expiry that the caller has read; 3 and 4 when: 'in' and milliseconds, 'at' and
--       a Unix time in milliseconds, or 'never'; 5 those of the words NX, XX, GT and LT that apply; 6 a name for this
--       operation; 7 and 8 the time and the stamp of the expiry that the first shard knows
-- Reply as that of commands/spread_pointers.lua, and a word: 'set'; 'no' if the condition is not met; 'past' if the time has
--       come, and the caller is to delete the list; 'changed' if generation and stamp are others by now, or a delete is under
--       way
-- Flags allow-oom
-- Cost  O(1).
--
-- The caller tells the shards at the ends. Safe because it may run twice: a late copy finds its name, or another stamp. OOM
-- allows its first write.

local NEVER = math.huge
local FAR = 2 ^ 53 -- numbers up to here are exact
local NAMES = 4 -- of operations that are remembered

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
if string.find(' ' .. by .. ' ', ' ' .. ARGV[6] .. ' ', 1, true) then
  write_again(text)
  return verdict('set')
elseif p.deleting or p.generation ~= tonumber(ARGV[1]) or stamp ~= tonumber(ARGV[2]) then
  write_again(text)
  return verdict('changed')
end
local shard_time, shard_stamp = tonumber(ARGV[7]), tonumber(ARGV[8])
if shard_stamp > stamp or (shard_stamp == stamp and shard_time == 0) then -- void, or a failover has taken it back from here
  time = shard_time
  p.next = math.max(p.next, shard_stamp + 1)
end
local now = math.floor(microseconds() / 1000)
local current = time == 0 and NEVER or time
local wanted = ARGV[3] == 'never' and NEVER or tonumber(ARGV[4]) + (ARGV[3] == 'in' and now or 0)
local function only(word)
  return string.find(ARGV[5], word, 1, true)
end
local met = wanted < NEVER or current < NEVER
if only('NX') and current < NEVER
  or only('XX') and current == NEVER
  or only('GT') and wanted <= current
  or only('LT') and wanted >= current then
  met = false
end
if not met or wanted <= now then
  write_again(text)
  return verdict(met and 'past' or 'no')
end
redis.call('HDEL', META, 'never') -- OOM allows this, and then what follows
local names = { ARGV[6] }
for name in string.gmatch(by, '%S+') do
  names[#names + 1] = #names < NAMES and name or nil
end
save_expiry(wanted == NEVER and 0 or math.min(wanted, FAR), p.next, table.concat(names, ' '))
p.next = p.next + 1
save_pointers(p)
return verdict('set')
