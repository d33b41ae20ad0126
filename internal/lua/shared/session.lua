-- Exactly once: an operation that is sent again replies with its first result and changes nothing.
--
-- A session is a stream of operations of one client, one at a time. Each has a sequence number, one higher than the last. The
-- session has a dedup record next to the list, so a failover keeps both or loses both. An operation reads the record first. If
-- it finds its own number, it returns the result. If it finds a higher one, it is a late copy and does nothing.
--
-- The record is '<sequence number>:<result>'. The result is one of
--   a number or OK           the reply
--   '!' and a text           the reply is an error; commands/resolve.lua leaves one for copies that arrive late
--   <head>                   no elements; the head is empty or digits, as the command likes
--   <head> '=' <element>     one element
--   <head> '@'               several elements, which are in the list POPPED
-- shared/elements.lua reads and writes the results with elements. fast/push.lua and fast/pop.lua read and write records by
-- themselves, in the same format, since they run before these functions are defined.
--
-- replay comes before open: whatever has become of the list, a recorded result is the result.
--
-- ARGV  1 the id of the session, 2 the sequence number, 3 the TTL of the record in milliseconds; 2 and 3 are '' for an
--       operation that may run twice
--
-- requires: shared/list

local SEQUENCE = tonumber(ARGV[2])
local RECORD = SEQUENCE and PREFIX .. 'op:' .. ARGV[1]
local POPPED = SEQUENCE and RECORD .. ':popped'
local RECORD_MOVES = 'TRYAGAIN the dedup record is moving to another node'

-- replay returns the result if this operation has already been done. Otherwise it returns nil and, if the operation must not
-- be done, the error to reply with.
local function replay()
  local record = RECORD and redis.call('GET', RECORD)
  if record then
    local colon = string.find(record, ':', 1, true)
    local sequence = tonumber(string.sub(record, 1, colon - 1))
    if sequence == SEQUENCE then
      local result = string.sub(record, colon + 1)
      local several = string.find(result, '^%d*@$')
      if several and redis.call('PEXPIRE', POPPED, ARGV[3]) == 0 and is_moving(redis.pcall('EXISTS', RECORD, POPPED)) then
        return nil, redis.error_reply(RECORD_MOVES)
      end
      -- A WAIT after this covers the first run, on whatever connection, only if this connection writes something too.
      redis.call('PEXPIRE', RECORD, ARGV[3])
      if string.sub(result, 1, 1) == '!' then
        return nil, redis.error_reply(string.sub(result, 2))
      end
      return result
    end
    if sequence > SEQUENCE then
      return nil, redis.error_reply('STALE operation ' .. SEQUENCE .. ' of a session that is at ' .. sequence)
    end
  elseif RECORD and is_away(RECORD) then
    return nil, redis.error_reply(RECORD_MOVES)
  end
end

-- save_result writes the record. If it is the first write of the script, OOM refuses it unless touch comes first.
local function save_result(result)
  if RECORD then
    redis.call('SET', RECORD, ARGV[2] .. ':' .. result, 'PX', ARGV[3])
  end
end

-- touch is a first write that OOM allows.
local function touch()
  if RECORD then
    redis.call('PEXPIRE', RECORD, ARGV[3])
  end
end

-- save_error saves an error that depends on the elements of the list, and returns it to reply with. It counts as a result: a
-- late copy of the operation must not succeed after it. The client has to know the text.
local function save_error(text)
  save_result('!' .. text)
  return redis.error_reply(text)
end
