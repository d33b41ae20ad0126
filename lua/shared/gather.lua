-- Makes the shards of a list one, in bounded steps.
--
-- The longer end shard takes the elements of its neighbour, and then its place. Until it has all of them, the neighbour is the
-- part, see shared/carve.lua. So the list is a list at every moment.
--
-- requires: shared/carve

-- merge moves elements from the neighbour of the longer end shard, or from the part, to the end shard beside it. It returns
-- how many, or nil and the error.
local function merge(list)
  local head, tail = shard_length(list, list.first), shard_length(list, list.last)
  local at_left = head and tail and head > tail
  if list.part then
    at_left = beside_part(list, true)
  end
  local id = at_left and list.first or list.last
  local neighbour = at_left and id + 1 or id - 1
  local from, to = list.shards .. neighbour, list.shards .. id
  local size = shard_length(list, neighbour)
  if not (head and tail and size) then
    return nil, missing(list, not head and list.first or not tail and list.last or neighbour)
  end
  local number = shift_elements(from, to, not at_left, size)
  if number == size then
    redis.call('RENAME', to, from)
    set_ttl(list, neighbour, list.expires and list.ttl) -- the TTL cursor may pass by it
    list[at_left and 'first' or 'last'] = neighbour
  end
  local is_end = neighbour == list.first or neighbour == list.last
  list.part = not is_end and (number > 0 and neighbour or list.part) or nil
  return number
end

-- gather merges shards until the script must move no more. It returns the error if a shard is missing: the list is as whole as
-- it was. The script has written before, and the slot does not move.
local function gather(list)
  local number, problem = 1, nil
  while list.first < list.last and number and number > 0 do
    number, problem = merge(list)
  end
  save_list(list)
  return problem
end
