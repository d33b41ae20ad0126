-- Pops elements from a shard that has more, as most pops do. It runs before the helpers are defined, since defining functions
-- alone takes longer than such a pop. It leaves all other cases, meta of a wrong type among them, to commands/pop.lua, with
-- nothing changed.
--
-- KEYS and ARGV are those of commands/pop.lua. If the session has no record here, the record may be away or in meta:
-- commands/pop.lua finds out.
--
-- It reads the pointers and the dedup record by itself: shared/list.lua and shared/session.lua document their formats.

local COUNT = tonumber(ARGV[5])
if COUNT > 0 and COUNT < 2000 and ARGV[6] ~= 'woken' and string.byte(ARGV[1]) ~= 64 then -- not '@'
  local call, pcall = redis.call, redis.pcall
  local record = ARGV[2] ~= '' and string.sub(KEYS[1], 1, -5) .. 'op:' .. ARGV[1]
  local m = pcall('HMGET', KEYS[1], 'layout', 'first', 'last', 'stale', 'expires')
  local first, last = tonumber(m[2]), tonumber(m[3])
  local plain = m[1] and string.sub(m[1], 1, 1) == '2' and first and last and not m[4] and not m[5] and first <= last
  if plain and record then
    local before = pcall('GET', record)
    plain = type(before) == 'string' and tonumber(string.match(before, '^%d+')) < tonumber(ARGV[2])
  end
  local left = ARGV[4] == 'L'
  local near = plain and string.sub(m[1], 2) .. (left and first or last)
  if plain and call('LLEN', near) > COUNT then
    if COUNT == 1 then
      local value = call(left and 'LPOP' or 'RPOP', near)
      if record then
        call('SET', record, ARGV[2] .. ':=' .. value, 'PX', ARGV[3])
      end
      return { 0, { value } }
    end
    local popped = record and record .. ':popped'
    local before = popped and pcall('LLEN', popped)
    if not popped or type(before) == 'number' and before > 0 then
      local values = call(left and 'LPOP' or 'RPOP', near, COUNT)
      if record then
        local piece = 1 + math.floor(16384 / (#values[1] + 1)) -- see PIECE in shared/values.lua
        for i = 1, COUNT, piece do
          call('RPUSH', popped, unpack(values, i, math.min(COUNT, i + piece - 1)))
        end
        call('LTRIM', popped, -COUNT, -1)
        call('PEXPIRE', popped, ARGV[3])
        call('SET', record, ARGV[2] .. ':@', 'PX', ARGV[3])
      end
      return { 0, values }
    end
  end
end
