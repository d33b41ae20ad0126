-- Pushes values onto a shard at an end of a spread list that takes them, also onto an empty one, and rings if a consumer waits
-- there. KEYS and ARGV are those of commands/spread_push.lua.
--
-- requires: fast/spread_push fast/spread_arm shared/pieces shared/ring shared/record

-- In each call:

if END and #ARGV > 5 and #ARGV - 5 < UNPACK_MAX and (#ARGV == 6 or #ARGV[6] * (#ARGV - 5) < PIECE) then
  local before = redis.call('LLEN', END)
  local is_here = before > 0 and not ARMED or type(redis.pcall('EXISTS', META, END, BELL)) == 'number'
  if before < FULL + 0 and is_here and (not ARMED or type(redis.pcall('LLEN', BELL)) == 'number') then
    local size = redis.call(LEFT and 'LPUSH' or 'RPUSH', END, unpack(ARGV, 6))
    if ARMED then
      arm(false)
      ring()
    end
    local result = FAR_BORDER and string.format('AT %.0f', FAR_BORDER + (LEFT and -size or size)) or size
    save_record(result)
    return result
  end
end
