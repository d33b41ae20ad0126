-- Results with elements in the dedup record. shared/session.lua documents the format.
--
-- requires: shared/session shared/values

-- replay_elements returns the head of a result and its elements, or nil if it has none.
local function replay_elements(result)
  local mark = string.find(result, '[=@]')
  if not mark then
    return result
  end
  local head = string.sub(result, 1, mark - 1)
  if string.sub(result, mark, mark) == '@' then
    return head, redis.call('LRANGE', POPPED, 0, -1)
  end
  return head, { string.sub(result, mark + 1) }
end

-- elements_problem returns, before the first write, the error to reply with if that many elements cannot be saved.
local function elements_problem(total)
  if RECORD and total > 1 then
    if is_away(POPPED) then
      return redis.error_reply(RECORD_MOVES)
    end
    redis.call('LLEN', POPPED) -- an error if it is no list
  end
end

-- save_elements saves a result with elements, which are in arrays. It pushes several of them to POPPED and trims the older
-- ones: joining many elements in Lua would cost far more than popping them.
local function save_elements(head, shards, total)
  if total == 0 then
    touch()
    save_result(head)
  elseif total == 1 then
    save_result(head .. '=' .. shards[1][1])
  elseif RECORD then
    for _, shard in ipairs(shards) do
      push_values('RPUSH', POPPED, shard, 1, #shard)
    end
    redis.call('LTRIM', POPPED, -total, -1)
    redis.call('PEXPIRE', POPPED, ARGV[3])
    save_result(head .. '@')
  end
end
