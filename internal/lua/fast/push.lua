-- Pushes values into an end shard that has room for them, or into an empty list, ringing the bell if a consumer waits: as most
-- pushes do. It runs before the helpers are defined, since defining functions alone takes longer than such a push. It leaves
-- all other cases, meta of a wrong type among them, to commands/push.lua, with nothing changed.
--
-- KEYS and ARGV are those of commands/push.lua. It reads and writes the pointers, the dedup record and the bell by itself:
-- shared/list.lua, shared/session.lua and shared/bell.lua document them.

if #ARGV > 5 and #ARGV < 2000 and string.byte(ARGV[1]) ~= 64 then -- not '@'; Lua's stack has room for that many values
  local call, pcall, meta, prefix, count = redis.call, redis.pcall, KEYS[1], string.sub(KEYS[1], 1, -5), #ARGV - 5
  local record = ARGV[2] ~= '' and prefix .. 'op:' .. ARGV[1]
  local m = pcall('HMGET', meta, 'layout', 'first', 'last', 'cap', 'stale', 'expires', 'armed')
  local first, last, cap = tonumber(m[2]), tonumber(m[3]), tonumber(m[4])
  local shards = m[1] and string.sub(m[1], 1, 1) == '2' and first and last and string.sub(m[1], 2)
  local simple = not m.err and not m[5] and not m[6] and (not m[1] or shards and shards ~= '')
  if simple and record then
    local before = pcall('GET', record)
    if before then
      simple = type(before) == 'string' and tonumber(string.match(before, '^%d+')) < tonumber(ARGV[2])
    else
      simple = type(pcall('EXISTS', meta, record)) == 'number' -- it is not on another node
    end
  end
  local left, elements = ARGV[4] == 'L', shards and first <= last
  if simple and elements and cap then
    local length = 0
    if first < last then
      length = call('LLEN', shards .. (left and last or first))
      simple = length > 0
      length = length + (last - first - 1) * cap
    end
    local near = shards .. (left and first or last)
    if simple and count > 1 then
      local size = call('LLEN', near)
      simple = size > 0 and size + count <= cap and #ARGV[6] * count < 16384 -- see PIECE in shared/values.lua
    end
    if simple then
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
  elseif simple and record and not elements and count <= (tonumber(ARGV[5]) or 0) and #ARGV[6] * count < 16384 then
    local armed, plain, bell = m[7] == '1', KEYS.plain and KEYS.plain[1], prefix .. 'bell'
    local id = shards and (left and first - 1 or last + 1) or left and -1 or 0
    simple = pcall('EXISTS', meta, plain or meta) == (shards and 1 or 0) * (plain and 1 or 2)
    if simple and armed then
      simple = type(pcall('EXISTS', meta, bell)) == 'number' and type(pcall('LLEN', bell)) == 'number'
    end
    if simple and shards then
      simple = pcall('EXISTS', meta, shards .. id) == 1
    end
    if simple then
      local known = shards
      shards = shards or prefix .. '#' .. string.sub(ARGV[1], -12) .. '.' .. ARGV[2] .. ':' -- see shared/identity.lua
      call('HSET', meta, 'layout', '2' .. shards, 'first', id, 'last', id, 'cap', ARGV[5], 'armed', 0)
      call(left and 'LPUSH' or 'RPUSH', shards .. id, unpack(ARGV, 6))
      if known then
        call('PERSIST', meta)
      end
      if armed then
        if call('RPUSH', bell, '1') > 1 then
          call('LPOP', bell)
        end
        call('PEXPIRE', bell, 30000)
      end
      call('SET', record, ARGV[2] .. ':' .. count, 'PX', ARGV[3])
      return count
    end
  end
end
