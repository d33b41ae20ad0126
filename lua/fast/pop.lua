-- Pops one element, or a few, for callers that do not wait, or finds that there is no list. KEYS and ARGV are those of
-- commands/pop.lua.
--
-- It joins a few small elements in the record, as shared/elements.lua does, if the caller expects them to be small: that takes
-- less than the commands that put them into POPPED.
--
-- requires: fast/begin

local COUNT, HOW, LEAVES, JOINS

-- In each call:

COUNT, HOW, LEAVES, JOINS = tonumber(ARGV[5]), ARGV[6], ARGV[8] == 'leave', ARGV[8] == 'join'
if (HAS_ELEMENTS and HOW == 'no' or SHORT and not ARMED and HOW ~= 'woken') and not LEAVES
  and (COUNT == 1 and not WAS_LARGE or COUNT > 1 and (JOINS or not RECORD)) then
  local size = (HAS_ELEMENTS or COUNT > 1) and redis.pcall('LLEN', NEAR) or 0
  local suits = SHORT and COUNT == 1
  if type(size) ~= 'number' then
    suits = false
  elseif HAS_ELEMENTS then -- one that leaves half a shard makes the list short
    suits = size > COUNT and JOIN > 2 and (SPAN > 0 or size - COUNT > CAP / 2) or size > 0 and size <= COUNT and SPAN == 0
  elseif COUNT > 1 then
    suits = size > 0 and (HOW == 'no' or size >= COUNT)
  end
  local popped, record -- the element or the elements, and the result behind the number
  if suits and COUNT == 1 then
    popped = redis.pcall(LEFT and 'LPOP' or 'RPOP', NEAR)
    popped = type(popped) == 'string' and popped
    record = popped and ':=' .. popped
  elseif suits then
    popped = redis.call(LEFT and 'LPOP' or 'RPOP', NEAR, ARGV[5])
  end
  if popped and COUNT > 1 and RECORD then
    record = { ':@' }
    for i = 1, #popped do
      record[2 * i], record[2 * i + 1] = #popped[i] .. ':', popped[i]
    end
    record = table.concat(record)
  end
  if popped then
    if HAS_ELEMENTS and size <= COUNT then
      redis.call('DEL', META)
    end
    if KEEPS_TTL then -- as shared/record.lua, whose function is not defined yet
      redis.call('SET', RECORD, ARGV[2] .. record, 'KEEPTTL')
    elseif RECORD then
      redis.call('SET', RECORD, ARGV[2] .. record, 'PX', LIFE)
    end
    return COUNT == 1 and popped or { 0, popped }
  end
end
if FAST and RECORD and not WRITTEN and COUNT > 0 and HOW == 'no' and not LEAVES and OTHERS == 0 then
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
