-- Pops elements from a shard that has more, pops all that a list of one shard has, or finds a list empty: as most pops do. It
-- runs before the helpers are defined, since defining functions alone takes longer than such a pop. It leaves all other cases,
-- meta of a wrong type among them, to commands/pop.lua, with nothing changed.
--
-- KEYS and ARGV are those of commands/pop.lua. It reads and writes the pointers, the dedup record and the bell by itself:
-- shared/list.lua, shared/session.lua and shared/wake.lua document them.

local COUNT = tonumber(ARGV[5])
if COUNT > 0 and COUNT < 2000 and string.byte(ARGV[1]) ~= 64 then -- not '@'; Lua's stack has room for that many values
  local call, pcall, meta, prefix = redis.call, redis.pcall, KEYS[1], string.sub(KEYS[1], 1, -5)
  local life, keeps = ARGV[3], false
  local record = ARGV[2] ~= '' and prefix .. 'op:' .. ARGV[1]
  local first, last, cap, shards
  local layout = pcall('HGET', meta, 'layout')
  if type(layout) == 'string' then
    first, last, cap, shards = string.match(layout, '^3 (%-?%d+) (%-?%d+) (%d+) [01] (.+)$')
    first, last = tonumber(first), tonumber(last)
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
  local left, elements, how, bell = ARGV[4] == 'L', shards and first <= last, ARGV[6], prefix .. 'bell'
  if simple and how ~= 'no' then
    simple = type(pcall('EXISTS', meta, bell)) == 'number' and type(pcall('LLEN', bell)) == 'number'
    if how == 'woken' and ARGV[7] ~= '' then
      simple = simple and pcall('EXISTS', ARGV[7]) == 0
    end
  end
  local popped = record and COUNT > 1 and record .. ':popped'
  if simple and popped then
    simple = type(pcall('EXISTS', meta, popped)) == 'number' and type(pcall('LLEN', popped)) == 'number'
  end

  local values
  if simple and elements and cap ~= '0' then
    local near = shards .. (left and first or last)
    local size = call('LLEN', near)
    local rest = size - COUNT
    if size > 0 and (rest > 0 or first == last and (rest == 0 or how == 'no' or how == 'woken')) then
      values = call(left and 'LPOP' or 'RPOP', near, COUNT)
      if rest > 0 and how == 'woken' then
        if call('RPUSH', bell, '1') > 1 then
          call('LPOP', bell)
        end
        call('PEXPIRE', bell, 30000)
      elseif rest <= 0 and how == 'woken' then
        call('DEL', bell)
        call('HSET', meta, 'layout', '3 0 -1 ' .. cap .. ' 1 ' .. shards)
        call('PEXPIRE', meta, 30000)
      elseif rest <= 0 then
        call('DEL', meta)
      end
    end
  elseif simple and record and not elements then
    local plain = KEYS.plain and KEYS.plain[1]
    if pcall('EXISTS', meta, plain or meta) == (shards and 1 or 0) * (plain and 1 or 2) then
      values = {}
      if how == 'no' then
        call('PEXPIRE', record, life) -- OOM allows this, and then what follows
      else
        shards = shards or prefix .. '#' .. string.sub(ARGV[1], -12) .. '.' .. ARGV[2] .. ':' -- see shared/identity.lua
        call('DEL', bell)
        call('HSET', meta, 'layout', '3 ' .. (first or 0) .. ' ' .. (last or -1) .. ' ' .. (cap or 0) .. ' 1 ' .. shards)
        call('PEXPIRE', meta, 30000)
      end
    end
  end

  local count = values and #values
  if count and record then
    local result = ':'
    if count == 1 then
      result = ':=' .. values[1]
    elseif count > 1 then
      result = ':@'
      local piece = 1 + math.floor(16384 / (#values[1] + 1)) -- see PIECE in shared/values.lua
      for i = 1, count, piece do
        call('RPUSH', popped, unpack(values, i, math.min(count, i + piece - 1)))
      end
      call('LTRIM', popped, -count, -1)
      call('PEXPIRE', popped, life)
    end
    if keeps then
      call('SET', record, ARGV[2] .. result, 'KEEPTTL')
    else
      call('SET', record, ARGV[2] .. result, 'PX', life)
    end
  end
  if count then
    return count > 0 and { 0, values } or { 0 }
  end
end
