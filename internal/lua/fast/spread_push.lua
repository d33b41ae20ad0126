-- Pushes values onto a shard at an end of a spread list that takes them. KEYS and ARGV are those of commands/spread_push.lua.
--
-- requires: fast/spread_begin shared/pieces

if END and #ARGV > 5 and #ARGV - 5 < UNPACK_MAX and (#ARGV == 6 or #ARGV[6] * (#ARGV - 5) < PIECE) then
  local left, size = ARGV[4] == 'L'
  if #ARGV == 6 then -- this saves the LLEN
    size = redis.call(left and 'LPUSHX' or 'RPUSHX', END, ARGV[6])
    if size > FULL then
      redis.call(left and 'LPOP' or 'RPOP', END)
      size = 0
    end
  else
    local before = redis.call('LLEN', END)
    size = before > 0 and before < FULL and redis.call(left and 'LPUSH' or 'RPUSH', END, unpack(ARGV, 6)) or 0
  end
  if size > 0 then
    local result = FAR_BORDER and string.format('AT %.0f', FAR_BORDER + (left and -size or size)) or size
    save_record(result)
    return result
  end
end
