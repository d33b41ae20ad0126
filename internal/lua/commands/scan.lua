-- Returns the next elements of the list, from left to right.
--
-- requires: shared/list shared/take_over
--
-- KEYS  1 meta
-- ARGV  1 where to start, 2 where to end, both '' in the first call, 3 how many elements are enough
-- Reply where to continue ('' at the end), where to end, and arrays of elements, one for each shard
-- Cost  O(elements returned): whole shards, and parts of long ones.
--
-- A place to start is the id of a shard; in a long shard, '<' and the number of elements behind the place follow, or, in the
-- last shard, '>' and the number of elements before it. So it stays where it is when elements leave the shard at the end of
-- the list, and when a carve moves others to shards of their own. The place to end is the id of a shard, or '*' for that of
-- the last one, while that is long.
--
-- Elements stay in their order, unless LINSERT or LREM moves them. So an element that is in the list from the first call to the
-- last is read exactly once.

local list, problem = open('reading')
if problem then
  return problem
end

local function size_at(id)
  return redis.call('LLEN', list.shards .. id)
end

local final = ARGV[2]
if final == '' and not is_empty(list) then
  final = size_at(list.last) > list.cap and '*' or tostring(list.last)
end
local stop = math.min(tonumber(final) or list.last, list.last)
local word, kind, count = string.match(ARGV[1], '^(%-?%d+)([<>]?)(%d*)$')
local id = math.max(tonumber(word) or list.first, list.first)
local behind, before = nil, 0
if kind and kind ~= '' and id == tonumber(word) then
  behind, before = kind == '<' and tonumber(count), kind == '>' and tonumber(count) or 0
  while behind and id > list.first and behind > size_at(id) do -- carved since
    behind, id = behind - size_at(id), id - 1
  end
  while id < list.last and before >= size_at(id) do
    before, id = before - size_at(id), id + 1
  end
end

local wanted, found, next = tonumber(ARGV[3]), {}, nil
while not next and id <= stop and wanted > 0 do
  local size = size_at(id)
  if size == 0 then
    return missing(list, id)
  end
  local from = behind and math.max(0, size - behind) or before
  local take = size > list.cap and math.min(size - from, wanted) or size - from
  local elements = redis.call('LRANGE', list.shards .. id, from, from + take - 1)
  found[#found + 1] = elements
  wanted = wanted - #elements
  behind, before = nil, 0
  if from + take == size then
    id = id + 1
  elseif id == list.last and id > list.first then
    next = id .. '>' .. (from + take)
  else
    next = id .. '<' .. (size - from - take)
  end
end
return { next or id <= stop and tostring(id) or '', final, found }
