-- The memory of a list.
--
-- requires: shared/list

-- sample returns about how many bytes the shards of a list that is not empty take: those of the end shards, and for each shard
-- between the mean of some, evenly spread. It looks at so many shards, and at many nodes of each: where the server compresses
-- lists, the first is larger than the others.
local function sample(list, most)
  local shards = list.last - list.first + 1
  local samples = math.min(shards, most)
  local ends, between = 0, 0
  for i = 0, samples - 1 do
    local id = list.first + math.floor(i * (shards - 1) / math.max(1, samples - 1))
    local bytes = redis.pcall('MEMORY', 'USAGE', list.shards .. id, 'SAMPLES', '100')
    if type(bytes) == 'table' then -- miniredis has no SAMPLES
      bytes = redis.call('MEMORY', 'USAGE', list.shards .. id)
    end
    bytes = bytes or 0
    if i == 0 or i == samples - 1 then
      ends = ends + bytes
    else
      between = between + bytes
    end
  end
  return ends + math.floor(between * (shards - 2) / math.max(1, samples - 2))
end
