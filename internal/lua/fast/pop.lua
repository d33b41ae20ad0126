-- Pops one element for a caller that does not wait. KEYS and ARGV are those of commands/pop.lua.
--
-- requires: fast/begin

local COUNT, HOW, LEAVES = tonumber(ARGV[5]), ARGV[6], ARGV[8] == 'leave'
if HAS_ELEMENTS and COUNT == 1 and not LEAVES and HOW == 'no' and not WAS_LARGE then
  local left = ARGV[4] == 'L'
  local near = SHARDS .. (left and FIRST or LAST)
  local size = redis.call('LLEN', near)
  if size > 1 and (JOIN > 2 or not WATCHES) or size == 1 and FIRST == LAST then
    local value = redis.call(left and 'LPOP' or 'RPOP', near)
    if size == 1 then
      redis.call('DEL', META)
    end
    save_record('=' .. value)
    return value
  end
end
