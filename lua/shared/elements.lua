-- Results with elements in the dedup record. shared/session.lua documents the format.
--
-- requires: shared/session shared/popped

-- split returns the elements that join has joined, each of them behind its length.
local function split(joined, from)
  local elements = {}
  while from <= #joined do
    local colon = string.find(joined, ':', from, true)
    local stop = colon + tonumber(string.sub(joined, from, colon - 1))
    elements[#elements + 1] = string.sub(joined, colon + 1, stop)
    from = stop + 1
  end
  return elements
end

-- join makes one string of the elements in arrays.
local function join(shards)
  local parts = {}
  for _, shard in ipairs(shards) do
    for _, element in ipairs(shard) do
      parts[#parts + 1] = #element .. ':'
      parts[#parts + 1] = element
    end
  end
  return table.concat(parts)
end

-- replay_elements returns the head of a result and its elements, or nil if it has none.
local function replay_elements(result)
  local mark = string.find(result, '[=@]')
  if not mark then
    return result
  end
  local head = string.sub(result, 1, mark - 1)
  if string.sub(result, mark, mark) == '@' then
    return head, mark == #result and POPPED and redis.call('LRANGE', POPPED, 0, -1) or split(result, mark + 1)
  end
  return head, { string.sub(result, mark + 1) }
end

-- elements_problem returns, before the first write, the error to reply with if that many elements cannot be saved.
local function elements_problem(total)
  if POPPED and total > 1 then
    if is_away(POPPED) then
      return redis.error_reply(RECORD_MOVES)
    end
    redis.call('LLEN', POPPED) -- an error if it is no list
  end
end

-- save_elements saves a result with elements, which are in arrays.
local function save_elements(head, shards, total)
  if total == 0 then
    touch()
    save_result(head)
  elseif not FIELD then
    save_popped(head, shards, total)
  else
    save_result(head .. (total == 1 and '=' .. shards[1][1] or '@' .. join(shards)))
  end
end
