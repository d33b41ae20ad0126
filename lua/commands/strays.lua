-- Finds stray shards: those that no meta knows, because theirs was evicted or deleted while the list had elements.
--
-- requires: shared/list shared/size
--
-- KEYS  1 meta
-- ARGV  1 'unlink' to unlink the strays, else '', 2 the prefix of the shards' keys, which no other meta knows; 3… ids of shards
--       that SCAN found
-- Reply those of the ids that are strays. If a shard may be on another node, the reply is an error that the caller retries
-- Flags allow-oom
-- Cost  O(ids).
--
-- Safe because it reads meta in the same step, whatever has become of the list since the SCAN: a shard of the list, or one that
-- later operations sweep, is no stray. It looks at every key before the first write, UNLINK, which OOM allows.

local list, problem = open('reading')
if problem then
  return problem
end
local prefix = ARGV[2]

-- is_known tells whether meta knows the shard, as a part of the list or as one to sweep.
local function is_known(id)
  if prefix == list.shards and id >= list.first and id <= list.last then
    return true
  end
  for _, range in ipairs(list.stale or {}) do
    if prefix == range.shards and id >= range.lo and id <= range.hi then
      return true
    end
  end
end

local strays = {}
for i = 3, #ARGV do
  local id = ARGV[i]
  if not is_known(tonumber(id)) then
    local size, away = size_of(prefix .. id)
    if away then
      return missing({ shards = prefix }, id)
    elseif size and size > 0 then
      strays[#strays + 1] = id
    end
  end
end
if ARGV[1] == 'unlink' then
  for _, id in ipairs(strays) do
    redis.call('UNLINK', prefix .. id)
  end
end
return strays
