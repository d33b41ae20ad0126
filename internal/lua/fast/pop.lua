-- Pops one element for a caller that does not wait, or finds that there is no list. KEYS and ARGV are those of
-- commands/pop.lua.
--
-- requires: fast/begin

local COUNT, HOW, LEAVES = tonumber(ARGV[5]), ARGV[6], ARGV[8] == 'leave'
if HAS_ELEMENTS and COUNT == 1 and not LEAVES and HOW == 'no' and not WAS_LARGE then
  local size = redis.call('LLEN', NEAR)
  if size > 1 and (JOIN > 2 or not WATCHES) or size == 1 and SPAN == 0 then
    local value = redis.call(LEFT and 'LPOP' or 'RPOP', NEAR)
    if size == 1 then
      redis.call('DEL', META)
    end
    if KEEPS_TTL then -- as shared/record.lua, whose function is not defined yet
      redis.call('SET', RECORD, ARGV[2] .. ':=' .. value, 'KEEPTTL')
    elseif RECORD then
      redis.call('SET', RECORD, ARGV[2] .. ':=' .. value, 'PX', LIFE)
    end
    return value
  end
end
if FAST and RECORD and not WRITTEN and COUNT > 0 and HOW == 'no' and not LEAVES
  and (NOTHING or redis.pcall('EXISTS', META, PLAIN or PREFIX .. 'never') == 0) then
  local saved
  if KEEPS_TTL then
    saved = redis.pcall('SET', RECORD, ARGV[2] .. ':', 'KEEPTTL')
  else
    saved = redis.pcall('SET', RECORD, ARGV[2] .. ':', 'PX', LIFE)
  end
  if not saved.err then -- OOM refuses it, and allows what is behind this
    return { 0 }
  end
end
