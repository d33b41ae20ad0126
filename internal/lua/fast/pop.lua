-- Pops one element from a shard that has more, as most pops do. It runs before the helpers are defined, since defining
-- functions alone takes a quarter of the time of such a script. It leaves all other cases, meta of a wrong type
-- among them, to commands/pop.lua, with nothing changed.
--
-- KEYS and ARGV are those of commands/pop.lua. If the session has no record here, the record may be away or in meta:
-- commands/pop.lua finds out.
--
-- It reads the pointers and the dedup record by itself: shared/list.lua and shared/session.lua document their formats.

if ARGV[5] == '1' and ARGV[6] ~= 'woken' and string.byte(ARGV[1]) ~= 64 then -- not '@'
  local call, prefix = redis.call, string.sub(KEYS[1], 1, -5)
  local record = ARGV[2] ~= '' and prefix .. 'op:' .. ARGV[1]
  local m = redis.pcall('HMGET', KEYS[1], 'layout', 'first', 'last', 'stale', 'expires')
  local first, last = tonumber(m[2]), tonumber(m[3])
  local plain = m[1] and string.sub(m[1], 1, 1) == '2' and first and last and not m[4] and not m[5] and first <= last
  if plain and record then
    local before = redis.pcall('GET', record)
    plain = type(before) == 'string' and tonumber(string.match(before, '^%d+')) < tonumber(ARGV[2])
  end
  local left = ARGV[4] == 'L'
  local near = plain and string.sub(m[1], 2) .. (left and first or last)
  if plain and call('LLEN', near) > 1 then
    local value = call(left and 'LPOP' or 'RPOP', near)
    if record then
      call('SET', record, ARGV[2] .. ':=' .. value, 'PX', ARGV[3])
    end
    return { 0, { value } }
  end
end
