-- Returns the next shards of the list, from left to right.
--
-- requires: shared/index shared/take_in
--
-- KEYS  1 meta
-- ARGV  1 the id of the shard to start at, 2 the id of the last shard to read, both '' in the first call, 3 how many elements
--       are enough. For a list that is a plain key, or is becoming one, there are 'i' and an index, and the length
--       that it had, in place of ids
-- Reply the id to continue at ('' at the end), the id of the last shard to read, and arrays of elements, one for each shard;
--       or nil if a long shard must be split first, or the part filled: its elements change their places when it gets shorter
-- Flags allow-oom
-- Cost  O(elements returned), and at least one shard.
--
-- Elements stay in their shard, unless LINSERT or LREM moves them. So an element that is in the list from the first call to the
-- last is read exactly once. At most the list that comes after an empty one has a long shard in a later call.

-- scan_by_index reads from an index on: what is popped meanwhile moves the others, as on a plain list.
local function scan_by_index(list, from)
  local head, tail, length = measure(list)
  if not head then
    return tail
  end
  length = math.min(length, tonumber(ARGV[2]) or length)
  local parts, to = {}, math.min(length, from + tonumber(ARGV[3]))
  local next_index = to < length and 'i' .. to or ''
  while from < to do
    local id, offset = locate(list, head, length, from)
    local elements = redis.call('LRANGE', list.shards .. id, offset, offset + to - from - 1)
    if #elements == 0 then
      return missing(list, id)
    end
    parts[#parts + 1] = elements
    from = from + #elements
  end
  return { next_index, tostring(length), parts }
end

local list, problem = open('reading')
if problem then
  return problem
end
if string.sub(ARGV[1], 1, 1) == 'i' or ARGV[1] == '' and (list.restores or type(list.shards) == 'table') then
  return scan_by_index(list, tonumber(string.sub(ARGV[1], 2)) or 0)
end
if ARGV[1] ~= '' and (list.restores or list.restored and not list.short) then
  return redis.error_reply('REVERSED Restore was called meanwhile')
end
local id = math.max(tonumber(ARGV[1]) or list.first, list.first)
local final = math.min(tonumber(ARGV[2]) or list.last, list.last)
local wanted = tonumber(ARGV[3])
local found = {}
if ARGV[1] == '' and id <= final and (list.part or redis.call('LLEN', list.shards .. final) > cap_at(list, final)) then
  return false
end
while id <= final and wanted > 0 do
  local size = redis.call('LLEN', list.shards .. id)
  if size == 0 then
    return missing(list, id)
  elseif size > cap_at(list, id) then
    return false
  end
  found[#found + 1] = redis.call('LRANGE', list.shards .. id, 0, -1)
  wanted = wanted - size
  id = id + 1
end
return { id <= final and tostring(id) or '', tostring(final), found }
