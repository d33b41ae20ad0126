-- Deletes a list.
--
-- requires: shared/list shared/sweep

-- discard deletes a list that has elements, in the same way as an expired one, or returns the error to reply with. OOM allows
-- its first write.
local function discard(list)
  if list.short and not list.has_meta then -- the list is its key; meta, if there was one, would be on another node
    detach(list)
    return
  end
  local problem = unreadable(list, list.first) or unreadable(list, list.last) -- a missing shard is no reason to keep the others
  if problem then
    return problem
  end
  empty_expired(list)
  sweep(list)
end
