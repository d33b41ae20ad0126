-- Pushes values into an end shard that has room for them, or into an empty list, ringing the bell if a consumer waits: as most
-- pushes do. It runs before the helpers are defined, since defining functions alone takes longer than such a push. It leaves
-- all other cases, meta of a wrong type among them, to commands/push.lua, with nothing changed.
--
-- KEYS and ARGV are those of commands/push.lua. It reads and writes the pointers, the dedup record and the bell by itself:
-- shared/list.lua, shared/session.lua and shared/bell.lua document them.

if #ARGV > 5 and #ARGV < 2000 and string.byte(ARGV[1]) ~= 64 then -- not '@'; Lua's stack has room for that many values
  local call, pcall, meta, prefix, count = redis.call, redis.pcall, KEYS[1], string.sub(KEYS[1], 1, -5), #ARGV - 5
  local life, keeps = ARGV[3], false
  local record = ARGV[2] ~= '' and prefix .. 'op:' .. ARGV[1]
  local first, last, cap, armed, shards
  local layout = pcall('HGET', meta, 'layout')
  if type(layout) == 'string' then
    first, last, cap, armed, shards = string.match(layout, '^3 (%-?%d+) (%-?%d+) (%d+) ([01]) (.+)$')
    first, last, cap, armed = tonumber(first), tonumber(last), tonumber(cap), armed == '1'
  end
  local simple = shards or not layout
  if simple and record then
    local before = pcall('GET', record)
    if string.byte(life) == 45 then -- '-'
      life, keeps = string.sub(life, 2), before
    end
    if before then
      simple = type(before) == 'string' and tonumber(string.match(before, '^%d+')) < tonumber(ARGV[2])
    else
      simple = type(pcall('EXISTS', meta, record)) == 'number' -- it is not on another node
    end
  end
  local left, elements = ARGV[4] == 'L', shards and first <= last
  if simple and elements and cap > 0 then
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
        if keeps then
          call('SET', record, ARGV[2] .. ':' .. length, 'KEEPTTL')
        elseif record then
          call('SET', record, ARGV[2] .. ':' .. length, 'PX', life)
        end
        return length
      end
    end
  elseif simple and record and not elements and count <= (tonumber(ARGV[5]) or 0) and #ARGV[6] * count < 16384 then
    local plain, bell = KEYS.plain and KEYS.plain[1], prefix .. 'bell'
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
      call('HSET', meta, 'layout', '3 ' .. id .. ' ' .. id .. ' ' .. ARGV[5] .. ' 0 ' .. shards)
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
      call('SET', record, ARGV[2] .. ':' .. count, 'PX', life)
      return count
    end
  end
end
