-- Pops the only element for a caller that was woken, and arms the list again. KEYS and ARGV are those of commands/pop.lua.
--
-- It writes what shared/write_pointers.lua does, without defining its functions. No bell is there, and no release key.
--
-- requires: fast/pop

-- In each call:

if SHORT and not WRITTEN and RECORD and HOW == 'woken' and COUNT > 0 and not WAS_LARGE and ARGV[7] ~= ''
  and redis.pcall('LLEN', NEAR) == 1 and redis.pcall('EXISTS', META, PREFIX .. 'bell', ARGV[7]) == 0 then
  local value = redis.call(LEFT and 'LPOP' or 'RPOP', NEAR)
  redis.call('HSET', META, 'layout', LAYOUT .. ' 0 -1 0 1 ') -- armed
  redis.call('PEXPIRE', META, IDLE_MS)
  if KEEPS_TTL then
    redis.call('SET', RECORD, ARGV[2] .. ':=' .. value, 'KEEPTTL')
  else
    redis.call('SET', RECORD, ARGV[2] .. ':=' .. value, 'PX', LIFE)
  end
  return { 0, { value } }
end
