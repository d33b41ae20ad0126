-- Makes the shards of a list one, in bounded steps.
--
-- The longer end shard takes the elements of its neighbour, and then its place. So the list is a list at every moment.
--
-- requires: shared/carve

-- merge moves elements from the neighbour of the longer end shard to that shard: all of them, unless the neighbour is the other
-- end. It returns how many, or nil and the error.
local function merge(list, most)
  local head, tail = shard_length(list, list.first), shard_length(list, list.last)
  local at_left = head and tail and head > tail
  local id = at_left and list.first or list.last
  local neighbour = at_left and id + 1 or id - 1
  local from, to = list.shards .. neighbour, list.shards .. id
  local size = shard_length(list, neighbour)
  if not (head and tail and size) then
    return nil, missing(list, not head and list.first or not tail and list.last or neighbour)
  end
  local is_end = neighbour == list.first or neighbour == list.last
  local number = is_end and math.min(size, most) or size
  shift_elements(from, to, not at_left, number)
  if number == size then
    redis.call('RENAME', to, from)
    set_ttl(list, neighbour, list.expires and redis.call('HGET', META, 'ttl')) -- the TTL cursor may pass by it
    list[at_left and 'first' or 'last'] = neighbour
  end
  return number
end

-- gather merges shards until the script has moved MOVE_STEP elements, of which it has moved some before; everything at once if
-- unbounded says so. It returns how many it has moved then, and the error if a shard is missing: the list is as whole as it
-- was. The script has written before, and the slot does not move.
local function gather(list, moved, unbounded)
  local problem
  while list.first < list.last and (unbounded or moved < MOVE_STEP) and not problem do
    local sample = math.max(1, #(redis.call('LINDEX', list.shards .. list.last, 0) or ''))
    if not (unbounded or may_move(list, moved, sample)) then
      break
    end
    local most = math.max(1, math.min(MOVE_STEP - moved, math.floor(MOVE_BYTES / sample)))
    local merged
    merged, problem = merge(list, unbounded and MOVE_STEP or most)
    moved = moved + (merged or 0)
  end
  save_list(list)
  return moved, problem
end
