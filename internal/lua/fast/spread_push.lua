-- Pushes values onto a shard at an end of a spread list that takes them, also onto an empty one, and rings if a consumer waits
-- there. KEYS and ARGV are those of commands/spread_push.lua.
--
-- requires: fast/spread_begin shared/pieces shared/ring

-- push_end pushes the values and returns the size of the shard, or 0 if this is not the common case.
local function push_end(left)
  if not ARMED and #ARGV == 6 then -- this saves the LLEN
    local size = redis.call(left and 'LPUSHX' or 'RPUSHX', END, ARGV[6])
    if size > FULL then
      redis.call(left and 'LPOP' or 'RPOP', END)
      return 0
    elseif size > 0 then
      return size
    end
  end
  local before = redis.call('LLEN', END)
  local is_here = before > 0 and not ARMED or type(redis.pcall('EXISTS', META, END, BELL)) == 'number'
  if before >= FULL or not is_here or ARMED and type(redis.pcall('LLEN', BELL)) ~= 'number' then
    return 0
  end
  local size = redis.call(left and 'LPUSH' or 'RPUSH', END, unpack(ARGV, 6))
  if ARMED then
    arm(false)
    ring()
  end
  return size
end

if END and #ARGV > 5 and #ARGV - 5 < UNPACK_MAX and (#ARGV == 6 or #ARGV[6] * (#ARGV - 5) < PIECE) then
  local left = ARGV[4] == 'L'
  local size = push_end(left)
  if size > 0 then
    local result = FAR_BORDER and string.format('AT %.0f', FAR_BORDER + (left and -size or size)) or size
    if KEEPS_TTL then
      redis.call('SET', RECORD, ARGV[2] .. ':' .. result, 'KEEPTTL')
    else
      redis.call('SET', RECORD, ARGV[2] .. ':' .. result, 'PX', LIFE)
    end
    return result
  end
end
