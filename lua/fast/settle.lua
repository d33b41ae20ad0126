-- Ends the leases of jobs that are done and have no unique keys, where nobody waits for a concurrency. KEYS and ARGV are those
-- of commands/queue_settle.lua.
--
-- requires: shared/envelope

-- settle_done returns the reply, or nil if this is not the common case.
local function settle_done()
  local members = plain_members()
  if #members == 0 or #ARGV > 1 then
    return nil
  end
  local scores = redis.pcall('ZMSCORE', TIMES, unpack(members))
  local waits = redis.pcall('HGET', QUEUE, 'waits')
  if scores.err or type(waits) == 'table' or waits == 'limit'
    or type(redis.pcall('EXISTS', META, QUEUE, TIMES, JOBS)) ~= 'number' then
    return nil
  end
  local ids = {}
  for i, member in ipairs(members) do
    if not scores[i] then
      return nil
    end
    ids[i] = string.sub(member, 1, 16)
  end
  redis.call('HDEL', QUEUE, 'never') -- changes nothing, and OOM allows it
  redis.call('HINCRBY', QUEUE, 'done', #ids)
  redis.call('ZREM', TIMES, unpack(members))
  redis.call('HDEL', JOBS, unpack(ids))
  return string.rep('1', #ids)
end

-- In each call:

local result = settle_done()
if result then
  return result
end
