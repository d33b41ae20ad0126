-- Looks up an index in a list that does not expire, as most lists do not. It runs before the helpers are defined, since
-- defining functions alone takes longer than the look-up. It leaves all other cases to commands/lindex.lua.
--
-- KEYS and ARGV are those of commands/lindex.lua. It counts from the end that the sign of the index names, so it needs the
-- length of one shard only.
--
-- It reads the pointers by itself: shared/list.lua documents their format.

do
  local call = redis.call
  local layout = call('HGET', KEYS[1], 'layout')
  local first, last, cap, shards = string.match(layout or '', '^3 (%-?%d+) (%-?%d+) (%d+) [01] (.+)$')
  first, last, cap = tonumber(first), tonumber(last), tonumber(cap)
  if shards and cap > 0 and first <= last then
    local index = tonumber(ARGV[1])
    local right = index < 0
    local near, step = right and last or first, right and -1 or 1
    local id, offset = near, right and -1 - index or index -- from that end
    local size = call('LLEN', shards .. near)
    if offset >= size then
      id = near + step * (1 + math.floor((offset - size) / cap))
      offset = (offset - size) % cap
    end
    if size > 0 and id >= first and id <= last then
      local value = call('LINDEX', shards .. id, right and -1 - offset or offset)
      if value then
        return value
      end
    end
  end
end
