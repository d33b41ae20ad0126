-- Finds stray shards: those that meta does not know, because it was evicted or deleted while the list had elements.
--
-- requires: shared/list shared/size
--
-- KEYS  1 meta
-- ARGV  1 'unlink' to unlink the strays, else '', 2… ids of shards that SCAN found
-- Reply those of the ids that are strays. If a shard may be on another node, the reply is an error that the caller retries
-- Cost  O(ids).
--
-- Safe because it reads meta in the same step, whatever has become of the list since the SCAN: a shard of the list, or one that
-- later operations sweep, is no stray. It looks at every key before the first write, UNLINK, which OOM allows.

local list, problem = open('reading')
if problem then
  return problem
end

-- is_known tells whether meta knows the shard, as a part of the list or as one to sweep.
local function is_known(id)
  return id >= list.first and id <= list.last or list.lo and id >= list.lo and id <= list.hi
end

local strays = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  if not is_known(tonumber(id)) then
    local size, away = size_of(PREFIX .. id)
    if away then
      return missing(id)
    elseif size and size > 0 then
      strays[#strays + 1] = id
    end
  end
end
if ARGV[1] == 'unlink' then
  for _, id in ipairs(strays) do
    redis.call('UNLINK', PREFIX .. id)
  end
end
return strays
