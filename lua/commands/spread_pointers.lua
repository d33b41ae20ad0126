-- Reads the pointers of a spread list, or makes them.
--
-- requires: shared/spread_pointers
--
-- KEYS  1 meta
-- ARGV  1 1 if the caller may push, else 0; 2 the number of parts and 3 the capacity of a list that is made, or ''; 4 a
--       word that tells of the plain key of the list's name, see shared/keys.lua, or ''; 5 1 if the caller waits until a
--       replica has the pointers, else 0
-- Reply nil if there is none; else the field layout, the field old, and the field expiry
-- Cost  O(1).
--
-- Safe because it may run twice. If the list has another layout, it changes nothing.

local p, text = read_pointers()
if not p and text then
  return { text, '', '' }
elseif not p and redis.call('EXISTS', META) == 1 then
  return redis.error_reply('BADLAYOUT meta is a hash that belongs to no list')
end
local plain = ARGV[4] ~= '' and string.sub(ARGV[4], 2)
local there = 0 -- how many of meta and the plain key are there, if that matters
if plain and not (p and (p.used or p.deleting)) then
  there = redis.pcall('EXISTS', META, plain)
  if type(there) == 'table' then
    return there
  end
end
if there > (p and 1 or 0) then
  local size = redis.pcall('LLEN', plain)
  if type(size) == 'number' and p then -- the plain list becomes a list in one slot, once no shards are left
    if redis.call('HEXISTS', META, 'old') == 1 then
      return reply()
    end
    redis.call('DEL', META)
  end
  if type(size) == 'number' then
    return redis.error_reply('PLAINLIST ' .. plain)
  end
  return size
end
if not p and (ARGV[1] == '0' or ARGV[2] == '') then
  return false
elseif not p then
  local now = microseconds()
  save_pointers({
    parts = ARGV[2], cap = ARGV[3], generation = now, ids = { 0, 0 }, epochs = { now, now }, borders = { 0, 0 }, next = now + 1,
    deleting = false, used = true,
  })
elseif ARGV[1] == '1' and not p.used then
  p.used = true
  save_pointers(p)
  redis.call('PERSIST', META)
elseif ARGV[5] == '1' then
  write_again(text)
end
return reply()
