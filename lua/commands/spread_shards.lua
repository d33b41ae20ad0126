-- Lists shards of a part of a spread list.
--
-- KEYS  1 the part
-- ARGV  1 a cursor of HSCAN, 2 how many to return, about; or 1 '' and 2… the fields of shards
-- Reply the next cursor, and the fields and values of some shards; or '0' and those of the fields that are there; then the
--       watermark
-- Flags allow-oom
-- Cost  O(shards returned).
--
-- Safe because it changes nothing.

local mark = redis.call('HGET', KEYS[1], 'mark') or '0'
if ARGV[1] ~= '' then
  local some = redis.call('HSCAN', KEYS[1], ARGV[1], 'MATCH', '*.*', 'COUNT', ARGV[2])
  return { some[1], some[2], mark }
end
local found = {}
for i = 2, #ARGV do
  local state = redis.call('HGET', KEYS[1], ARGV[i])
  if state then
    table.insert(found, ARGV[i])
    table.insert(found, state)
  end
end
return { '0', found, mark }
