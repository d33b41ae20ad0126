-- The field stale of meta: ranges of shards that the list has left behind, for shared/sweep.lua to unlink.
--
-- requires: shared/keys

-- stale_text returns the field stale: '<lo> <hi> <length of the prefix> <prefix>' for each range.
local function stale_text(list)
  local words = {}
  for i, range in ipairs(list.stale) do
    words[i] = range.lo .. ' ' .. range.hi .. ' ' .. #range.shards .. ' ' .. range.shards
  end
  return table.concat(words)
end

-- read_stale reads the ranges of stale shards.
local function read_stale(list, text)
  while text and text ~= '' do
    local lo, hi, length, rest = string.match(text, '^(%S+) (%S+) (%d+) (.*)$')
    local range = { lo = tonumber(lo), hi = tonumber(hi), shards = string.sub(rest, 1, tonumber(length)) }
    list.stale = list.stale or {}
    table.insert(list.stale, range)
    list.own = range.shards == list.shards and range or list.own
    text = string.sub(rest, length + 1)
  end
end

-- queue_sweep adds ids to the shards to unlink. The caller saves the list.
local function queue_sweep(list, from, to)
  if not list.own then
    list.own = { lo = from, hi = to, shards = list.shards }
    list.stale = list.stale or {}
    table.insert(list.stale, list.own)
  end
  list.own.lo, list.own.hi = math.min(list.own.lo, from), math.max(list.own.hi, to)
end

-- detach turns the state into that of an empty list and queues all shards for a sweep. The caller saves it.
local function detach(list)
  if list.restored then
    redis.call('UNLINK', list.restored)
    list.last = list.first - 1
    return
  end
  queue_sweep(list, list.first, list.last)
  list.first, list.last = list.own.hi + 1, list.own.hi
  list.expires, list.join, list.steps = nil, 0, nil
end
