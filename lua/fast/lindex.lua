-- Looks up an index in a short list, or in one that does not expire, as most do not. It counts from the end that the sign of
-- the index names, so it needs the length of one shard only. It runs before most helpers are defined, as fast/begin.lua
-- explains. KEYS and ARGV are those of commands/lindex.lua.
--
-- requires: shared/pointers

-- In each call:

do
  local layout = redis.call('HGET', META, 'layout')
  if not layout and string.sub(PLAIN, -5) ~= ':bell' and redis.pcall('EXISTS', META, PLAIN) == 1 then
    local value = redis.pcall('LINDEX', PLAIN, ARGV[1])
    if type(value) == 'string' then
      return value
    end
  end
  local more, first, last, cap, _, shards = string.match(layout or '', POINTERS)
  first, last, cap = tonumber(first), tonumber(last), tonumber(cap)
  if more == '' and cap > 0 and first <= last and redis.pcall('EXISTS', PLAIN) == 0 then
    if string.byte(shards, -1) ~= COLON then
      shards = PREFIX .. shards .. ':'
    end
    local index = tonumber(ARGV[1])
    local right = index < 0
    local near, step = right and last or first, right and -1 or 1
    local id, offset = near, right and -1 - index or index -- from that end
    local size = redis.call('LLEN', shards .. near)
    if offset >= size then
      id = near + step * (1 + math.floor((offset - size) / cap))
      offset = (offset - size) % cap
    end
    if size > 0 and id >= first and id <= last then
      local value = redis.call('LINDEX', shards .. id, right and -1 - offset or offset)
      if value then
        return value
      end
    end
  end
end
