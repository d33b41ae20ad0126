-- Pushes a value onto a shard at an end of a spread list that has room, where no consumer waits. KEYS and ARGV are those of
-- commands/spread_push.lua.
--
-- requires: fast/spread_begin

-- In each call:

if END and #ARGV == 6 and not ARMED then
  local size = redis.call(LEFT and 'LPUSHX' or 'RPUSHX', END, ARGV[6]) -- this saves the LLEN
  if size > FULL + 0 then
    redis.call(LEFT and 'LPOP' or 'RPOP', END)
  elseif size > 0 then
    local result = FAR_BORDER and string.format('AT %.0f', FAR_BORDER + (LEFT and -size or size)) or size
    if KEEPS_TTL then -- as shared/record.lua, whose function is not defined yet
      redis.call('SET', RECORD, ARGV[2] .. ':' .. result, 'KEEPTTL')
    else
      redis.call('SET', RECORD, ARGV[2] .. ':' .. result, 'PX', LIFE)
    end
    return result
  end
end
