-- Finds stray shards: those that no meta knows, because theirs was evicted or deleted while the list had elements. Not those
-- that expire within three minutes.
--
-- requires: shared/list shared/size shared/knows_shard
--
-- KEYS  1 meta
-- ARGV  1 'unlink' to unlink the strays, else '', 2 the prefix of the shards' keys, which no other meta knows; 3 how soon a
--       shard must expire to be none, in milliseconds; 4… ids of shards that SCAN found
-- Reply those of the ids that are strays. If a shard may be on another node, the reply is an error that the caller retries
-- Flags allow-oom
-- Cost  O(ids).
--
-- Safe because it reads meta in the same step, whatever has become of the list since the SCAN: a shard of the list, or one that
-- later operations sweep, is no stray. It looks at every key before the first write, UNLINK, which OOM allows.

-- is_copy tells whether a shard expires soon: a COPY in steps may be making it, see commands/copy_step.lua.
local function is_copy(key)
  local left = redis.call('PTTL', key)
  return left >= 0 and left <= tonumber(ARGV[3])
end

local list, problem = open('reading')
if problem then
  return problem
end
local prefix = ARGV[2]

local strays = {}
for i = 4, #ARGV do
  local id = ARGV[i]
  if not knows_shard(list, prefix, tonumber(id)) then
    local size, away = size_of(prefix .. id)
    if away then
      return missing({ shards = prefix }, id)
    elseif size and size > 0 and not is_copy(prefix .. id) then
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
