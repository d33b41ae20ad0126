-- Returns about how many bytes the list takes, for MEMORY USAGE.
--
-- requires: shared/list
--
-- KEYS  1 meta
-- ARGV  1 how many shards to look at
-- Reply the bytes: those of the end shards, and for each shard between the mean of some, evenly spread; nil if there is no list
-- Cost  O(1): one MEMORY USAGE for each of these shards.

local list, problem = open('reading', true)
if problem then
  return problem
end
if is_empty(list) then
  return false
end
local shards = list.last - list.first + 1
local samples = math.min(shards, tonumber(ARGV[1]))
local ends, between = 0, 0
for i = 0, samples - 1 do
  local id = list.first + math.floor(i * (shards - 1) / math.max(1, samples - 1))
  local bytes = redis.call('MEMORY', 'USAGE', list.shards .. id) or 0
  if i == 0 or i == samples - 1 then
    ends = ends + bytes
  else
    between = between + bytes
  end
end
return ends + math.floor(between * (shards - 2) / math.max(1, samples - 2))
