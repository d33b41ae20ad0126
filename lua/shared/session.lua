-- Exactly once: an operation that is sent again replies with its first result and changes nothing.
--
-- A session is a stream of operations of one client, one at a time. Each has a sequence number, one higher than the last. The
-- session has a dedup record next to the list, so a failover keeps both or loses both. An operation reads the record first. If
-- it finds its own number, it returns the result. If it finds a higher one, it is a late copy and does nothing.
--
-- The record is '<sequence number>:<result>'. The result is one of
--   a number or OK           the reply
--   '!' and a text           the reply is an error; commands/resolve.lua leaves one for copies that arrive late
--   <head>                   no elements; the head is empty, or words and numbers, as the command likes
--   <head> '=' <element>     one element
--   <head> '@'               several elements, or a large one, in the list POPPED; a few small ones are behind the '@', and any
--                            if the record is in meta
-- shared/elements.lua and shared/popped.lua read and write the results with elements. Fast paths write them, too.
--
-- The record is a key. While its slot moves, a key that is not here may be on the other node, and the operation may have been
-- done: it is refused. A session that is refused so, and has no unknown outcome, takes a new id, which begins with '@'. The
-- record of such an id is a field of meta. Meta is here with all its fields, or not at all: without it, the operation waits for
-- the slot, since a redirection that came late may have led to a node that has yet to receive meta.
--
-- replay comes before open: whatever has become of the list, a recorded result is the result.
--
-- requires: shared/popped shared/list shared/layout shared/is_new shared/records shared/record

local HOME -- the meta that holds the record, if one does
local RECORD_MOVES = 'TRYAGAIN the dedup record is moving to another node'

-- read_record returns the record, as much of it as is needed, or nil; or nil and the error, if the record may be on another
-- node.
local function read_record()
  if FIELD then
    local value = redis.call('HGET', HOME, FIELD)
    if not value and redis.call('EXISTS', HOME) == 0 and is_away(PREFIX .. FIELD) then
      return nil, redis.error_reply(RECORD_MOVES)
    end
    return value and string.sub(value, string.find(value, ':', 1, true) + 1)
  end
  local record = RECORD and redis.pcall('GETRANGE', RECORD, 0, LARGE - 1)
  if type(record) == 'table' and is_moving(record) or record == '' and is_away(RECORD) then
    return nil, redis.error_reply(RECORD_MOVES)
  end
  if record and #record == LARGE and tonumber(string.match(record, '^%d+')) == SEQUENCE then
    return redis.call('GET', RECORD)
  end
  return record ~= '' and record
end

-- touch is a first write that OOM allows. save_result must follow.
local function touch()
  if FIELD then
    redis.call('HDEL', HOME, FIELD)
  elseif RECORD then
    redis.call('PEXPIRE', RECORD, LIFE)
  end
end

-- save_in_meta writes the record to a field of meta, and makes sure that meta stays as long as the record is needed. Without a
-- meta, it creates that of an empty list.
local function save_in_meta(record)
  local selected, now, ttl = META, clock(), redis.call('PTTL', HOME)
  META = HOME
  local layout = redis.call('HGET', META, 'layout') or ''
  if ttl == -2 then
    local list = no_list()
    list.records = true
    save_list(list)
  elseif not redis.call('HGET', META, FIELD) then
    drop_old_records(META, now)
  end
  local aside, pointers = split_aside(layout)
  if string.match(pointers, POINTERS) == '' then -- from now on there are other fields; its prefix is not that of PREFIX
    redis.call('HSET', META, 'layout', aside .. LAYOUT .. '+' .. string.sub(pointers, #LAYOUT + 1))
  end
  local all = math.max(now + RECORD_MS, tonumber(redis.call('HGET', META, 'records')) or 0)
  local one = string.format('%.0f:', now + RECORD_MS) .. record
  redis.call('HSET', META, FIELD, one, 'records', string.format('%.0f', all))
  if ttl ~= -1 and ttl < RECORD_MS then
    redis.call('PEXPIRE', META, RECORD_MS)
  end
  META = selected
end

-- save_result writes the record. If it is the first write of the script, OOM refuses it unless touch comes first.
local function save_result(result)
  if FIELD then
    save_in_meta(ARGV[2] .. ':' .. result)
  else
    save_record(result)
  end
end

-- replay returns the result if this operation has already been done. Otherwise it returns nil and, if the operation must not
-- be done, the error to reply with.
local function replay()
  local record, problem = nil, nil
  if not IS_NEW then
    record, problem = read_record()
  end
  if not record then
    return nil, problem
  end
  local colon = string.find(record, ':', 1, true)
  local sequence = tonumber(string.sub(record, 1, colon - 1))
  if sequence == SEQUENCE then
    local result = string.sub(record, colon + 1)
    local several = POPPED and string.find(result, '^[%w %-]*@$')
    if several and redis.call('PEXPIRE', POPPED, LIFE) == 0 and is_moving(redis.pcall('EXISTS', RECORD, POPPED)) then
      return nil, redis.error_reply(RECORD_MOVES)
    end
    -- A WAIT after this covers the first run, on whatever connection, only if this connection writes something too.
    touch()
    if FIELD then
      save_result(result)
    end
    if string.sub(result, 1, 1) == '!' then
      return nil, redis.error_reply(string.sub(result, 2))
    end
    return result
  end
  if sequence > SEQUENCE then
    return nil, redis.error_reply('STALE operation ' .. SEQUENCE .. ' of a session that is at ' .. sequence)
  end
end

-- save_error saves an error that depends on the elements of the list, and returns it to reply with. It counts as a result: a
-- late copy of the operation must not succeed after it. The client has to know the text.
local function save_error(text)
  save_result('!' .. text)
  return redis.error_reply(text)
end

-- In each call:

HOME = KEYS[1]
RECORD_MS = FIELD and tonumber(LIFE)
