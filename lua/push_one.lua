-- Pushes one value into a shard that has room, as most pushes do: in front of the helpers, whose definition alone would take
-- the server a quarter of the time. Whatever else is the case is left to push.lua, with nothing changed.
--
-- KEYS and ARGV are those of push.lua. A lane whose record is not there is left to it too: the record may be away.

if #ARGV == 6 then
  local call, prefix = redis.call, string.sub(KEYS[1], 1, -5)
  local record = ARGV[1] ~= '' and prefix .. 'op:' .. ARGV[1]
  local m = call('HMGET', KEYS[1], 'layout', 'first', 'last', 'cap', 'lo', 'expires')
  local first, last, cap = tonumber(m[2]), tonumber(m[3]), tonumber(m[4])
  local plain = m[1] == '1' and cap and first and last and not m[5] and not m[6] and first <= last
  if plain and record then
    local before = call('GET', record)
    plain = before and tonumber(string.match(before, '^%d+')) < tonumber(ARGV[2])
  end
  local left, length = ARGV[4] == 'L', 0
  if plain and first < last then
    length = call('LLEN', prefix .. (left and last or first))
    plain = length > 0
    length = length + (last - first - 1) * cap
  end
  if plain then
    local near = prefix .. (left and first or last)
    local size = call(left and 'LPUSHX' or 'RPUSHX', near, ARGV[6]) -- tells the size, which saves asking before
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
