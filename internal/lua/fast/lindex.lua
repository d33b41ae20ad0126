-- Looks up an index in a list that does not expire, as most lists do not. It runs before the helpers are defined, since
-- defining functions alone takes longer than the look-up. It leaves all other cases to commands/lindex.lua.
--
-- KEYS and ARGV are those of commands/lindex.lua. It counts from the end that the sign of the index names, so it needs the
-- length of one shard only.
--
-- It reads the pointers by itself: shared/list.lua documents their format.

do
  local call = redis.call
  local m = call('HMGET', KEYS[1], 'layout', 'first', 'last', 'cap', 'expires')
  local first, last, cap = tonumber(m[2]), tonumber(m[3]), tonumber(m[4])
  if m[1] and string.sub(m[1], 1, 1) == '2' and first and last and cap and cap > 0 and not m[5] and first <= last then
    local shards = string.sub(m[1], 2)
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
