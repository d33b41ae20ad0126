-- The length of a list.
--
-- requires: shared/list

-- measure returns the lengths of the first shard, the last shard and the list, or nil and the error.
local function measure(list)
  if is_empty(list) then
    return 0, 0, 0
  end
  local head, problem = shard_length(list, list.first)
  if not head then
    return nil, problem
  end
  if list.first == list.last then
    return head, head, head
  end
  local tail
  tail, problem = shard_length(list, list.last)
  if not tail then
    return nil, problem
  end
  return head, tail, head + tail + (list.last - list.first - 1) * list.cap
end
