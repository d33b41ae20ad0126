-- Exactly once: what the operations that go through lanes share. This file stands between list.lua and the script.
--
-- A lane is one client's stream of operations, one at a time, each with a number one higher than the one before. The lane's
-- record is a string beside the list, hence of the same fate in a failover: the number of the last operation, a colon, and
-- its result. An operation that is repeated, because its reply was lost, finds its number there and returns the result
-- again; a late copy of an older one finds a higher number and does nothing.
--
-- ARGV  1 the lane's id, 2 the number, 3 the record's life in milliseconds; all '' for an operation that may run twice

local NUMBER = tonumber(ARGV[2])
local RECORD = NUMBER and PREFIX .. 'op:' .. ARGV[1]
local POPPED = NUMBER and RECORD .. ':popped' -- a list of the elements that a pop took, if there were several

-- recall returns the result of this very operation if it has been done, or nil and, if it must not be done, the error.
local function recall()
  local record = RECORD and redis.call('GET', RECORD)
  if record then
    local colon = string.find(record, ':', 1, true)
    local number = tonumber(string.sub(record, 1, colon - 1))
    if number == NUMBER then
      local result = string.sub(record, colon + 1)
      local several = string.find(result, '^%d*@$')
      if several and redis.call('PEXPIRE', POPPED, ARGV[3]) == 0 and is_moving(redis.pcall('EXISTS', RECORD, POPPED)) then
        return nil, redis.error_reply('TRYAGAIN the record of a lane is moving to another node')
      end
      -- A WAIT behind this covers what was done on another connection, but only if something is written on this one.
      redis.call('PEXPIRE', RECORD, ARGV[3])
      if string.sub(result, 1, 1) == '!' then
        return nil, redis.error_reply(string.sub(result, 2))
      end
      return result
    end
    if number > NUMBER then
      return nil, redis.error_reply('STALE operation ' .. NUMBER .. ' of a lane that is at ' .. number)
    end
  elseif RECORD and is_moving(redis.pcall('EXISTS', META, RECORD)) then
    return nil, redis.error_reply('TRYAGAIN the record of a lane is moving to another node')
  end
end

-- remember writes the record. If nothing has been written before, a full server refuses that, unless touch goes before it.
local function remember(result)
  if RECORD then
    redis.call('SET', RECORD, ARGV[2] .. ':' .. result, 'PX', ARGV[3])
  end
end

local function touch()
  if RECORD then
    redis.call('PEXPIRE', RECORD, ARGV[3])
  end
end

-- refuse is remember for an error that follows from what the list holds, and so is a result: a late copy must not succeed
-- after it. It returns the error to reply with. The client has to know the text, see isRefusal in lane.go.
local function refuse(text)
  remember('!' .. text)
  return redis.error_reply(text)
end
