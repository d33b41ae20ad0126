-- Ends the leases of jobs that are done and have no unique keys, where nobody waits for a concurrency. KEYS and ARGV are those
-- of commands/queue_settle.lua.
--
-- requires: fast/record shared/envelope

-- settle_done returns the reply, or nil if this is not the common case.
local function settle_done()
  local members = {}
  for i = 4, #ARGV, 4 do
    if ARGV[i + 1] ~= '' or ARGV[i + 2] ~= '' then
      return nil
    end
    members[#members + 1] = ARGV[i]
  end
  local scores = redis.pcall('ZMSCORE', TIMES, unpack(members))
  local waits = redis.pcall('HGET', QUEUE, 'waits')
  if scores.err or type(waits) == 'table' or waits == 'limit'
    or type(redis.pcall('EXISTS', META, QUEUE, TIMES, JOBS)) ~= 'number' then
    return nil
  end
  local ids = {}
  for i, member in ipairs(members) do
    if not scores[i] or tonumber(scores[i]) >= 0 then
      return nil
    end
    ids[i] = string.sub(member, 1, 16)
  end
  redis.call('HDEL', QUEUE, 'never') -- changes nothing, and OOM allows it
  redis.call('HINCRBY', QUEUE, 'done', #ids)
  redis.call('ZREM', TIMES, unpack(members))
  redis.call('HDEL', JOBS, unpack(ids))
  local result = string.rep('1', #ids)
  save_record(result)
  return result
end

if RECORD and BESIDE ~= '^' and is_new() then
  local result = settle_done()
  if result then
    return result
  end
end
