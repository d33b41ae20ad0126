-- Puts the end shard back that commands/push_begin.lua has put aside, with the values that have been pushed onto it meanwhile.
--
-- requires: shared/is_new shared/aside shared/record
--
-- KEYS  1 meta
-- ARGV  those of push_begin.lua
-- Reply the length of the list; or nil if nothing has been pushed: nothing was aside, or not all values have come, or the
--       operation has been done or fenced meanwhile; or the error of COPY
-- Flags allow-oom
-- Cost  O(1), or O(values) if they do not fit into the shard.
--
-- Safe because only this operation changes what is aside: whoever else opens the list puts it back. If COPY is refused, the
-- shard is put back as it was.

local layout = redis.call('HGET', META, 'layout')
local aside = layout and read_aside(layout)
if not aside or aside.name ~= aside_name() then
  return false
end
local count = tonumber(ARGV[5])
local size = redis.call('LLEN', aside.key)
if size ~= aside.size + count or not IS_NEW then
  put_back(aside)
  return false
end

local cap, left, first, last = aside.cap, aside.left, aside.first, aside.last
local over, from = math.max(0, size - cap), aside.key
-- The rest becomes new shards, past Lua, too. SORT would make lists that list-compress-depth does not concern.
for beyond = over, 1, -cap do
  first, last = first - (left and 1 or 0), last + (left and 0 or 1)
  local new = aside.shards .. (left and first or last)
  local copied = redis.pcall('COPY', from, new, 'REPLACE')
  if type(copied) == 'table' then
    put_back(aside)
    return copied
  end
  redis.call('LTRIM', from, left and -cap or 0, left and -1 or cap - 1)
  redis.call('LTRIM', new, left and 0 or cap, left and beyond - 1 or -1)
  from = new
end
redis.call('RENAME', aside.key, aside.near)
if over > 0 then
  local more, _, _, _, digit, shards = string.match(aside.former, POINTERS)
  redis.call('HSET', META, 'layout', table.concat({ LAYOUT .. more, first, last, cap, digit, shards }, ' '))
else
  redis.call('HSET', META, 'layout', aside.former)
end
save_record(aside.others + size)
return aside.others + size
