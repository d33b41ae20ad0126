-- Pushes values into an end shard that has room for them, as most pushes do. It runs before the helpers are defined, since
-- defining functions alone takes longer than such a push. It leaves all other cases, meta of a wrong type among them, to
-- commands/push.lua, with nothing changed.
--
-- KEYS and ARGV are those of commands/push.lua. If the session has no record here, the record may be away or in meta:
-- commands/push.lua finds out.
--
-- It reads the pointers and the dedup record by itself: shared/list.lua and shared/session.lua document their formats.

if #ARGV > 5 and #ARGV < 2000 and string.byte(ARGV[1]) ~= 64 then -- not '@'; Lua's stack has room for that many values
  local call, count = redis.call, #ARGV - 5
  local record = ARGV[2] ~= '' and string.sub(KEYS[1], 1, -5) .. 'op:' .. ARGV[1]
  local m = redis.pcall('HMGET', KEYS[1], 'layout', 'first', 'last', 'cap', 'stale', 'expires')
  local first, last, cap = tonumber(m[2]), tonumber(m[3]), tonumber(m[4])
  local plain = m[1] and string.sub(m[1], 1, 1) == '2' and cap and first and last and not m[5] and not m[6] and first <= last
  if plain and record then
    local before = redis.pcall('GET', record)
    plain = type(before) == 'string' and tonumber(string.match(before, '^%d+')) < tonumber(ARGV[2])
  end
  local left, length, shards = ARGV[4] == 'L', 0, plain and string.sub(m[1], 2)
  if plain and first < last then
    length = call('LLEN', shards .. (left and last or first))
    plain = length > 0
    length = length + (last - first - 1) * cap
  end
  local near = plain and shards .. (left and first or last)
  if plain and count > 1 then
    local size = call('LLEN', near)
    plain = size > 0 and size + count <= cap and #ARGV[6] * count < 16384 -- see PIECE in shared/values.lua
  end
  if plain then
    local size = call(left and 'LPUSHX' or 'RPUSHX', near, unpack(ARGV, 6)) -- for one value, this saves the call before
    if size > cap then
      call(left and 'LPOP' or 'RPOP', near)
    elseif size > 0 then
      length = length + size
      if record then
        call('SET', record, ARGV[2] .. ':' .. length, 'PX', ARGV[3])
      end
      return length
    end
  end
end
