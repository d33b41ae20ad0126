-- Pops one element for a caller that was not woken, from the shard at an end of a spread list. KEYS and ARGV are those of
-- commands/spread_pop.lua.
--
-- requires: fast/spread_begin

local COUNT, WOKEN

-- In each call:

COUNT, WOKEN = tonumber(ARGV[6]), ARGV[7] == 'woken'
if END and COUNT == 1 and not WOKEN and not WAS_LARGE then
  local size = redis.call('LLEN', END)
  if size > 0 then
    local value = redis.call(LEFT and 'LPOP' or 'RPOP', END)
    local word = FAR_BORDER and string.format('AT %.0f', FAR_BORDER + (LEFT and 1 - size or size - 1)) or 'OK'
    local result = word .. '=' .. value
    if KEEPS_TTL then
      redis.call('SET', RECORD, ARGV[2] .. ':' .. result, 'KEEPTTL')
    else
      redis.call('SET', RECORD, ARGV[2] .. ':' .. result, 'PX', LIFE)
    end
    return result
  end
end
