-- What the server says: the time, whether its memory is full, and whether it takes writes.
--
-- requires: shared/keys

-- clock returns the server's Unix time in milliseconds.
local function clock()
  local now = redis.call('TIME')
  return tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
end

-- no_memory returns the server's error if its memory is full. RPUSHX of a key that is never there asks, and changes nothing.
local function no_memory()
  local reply = redis.pcall('RPUSHX', PREFIX .. 'never', '')
  return type(reply) == 'table' and string.find(reply.err, 'OOM', 1, true) and reply or nil
end

-- may_write tells whether the server takes writes, and is no replica. The command changes nothing, and OOM allows it.
local function may_write()
  return type(redis.pcall('HDEL', META, 'armed')) == 'number'
end
