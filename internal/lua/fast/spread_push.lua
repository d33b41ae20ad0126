-- Pushes values onto a shard at an end of a spread list that takes them. KEYS and ARGV are those of commands/spread_push.lua.
--
-- requires: fast/spread_begin shared/pieces

if END and FAST_SIZE > 0 and #ARGV > 5 and #ARGV - 5 < UNPACK_MAX and #ARGV[6] * (#ARGV - 5) < PIECE then
  if FAST_SIZE < tonumber(string.match(ARGV[5], '%d+$')) then
    local size = redis.call(ARGV[4] == 'L' and 'LPUSH' or 'RPUSH', END, unpack(ARGV, 6))
    local result = FAR_BORDER and 'AT ' .. string.format('%.0f', FAR_BORDER + (ARGV[4] == 'L' and -size or size)) or size
    save_record(result)
    return result
  end
end
