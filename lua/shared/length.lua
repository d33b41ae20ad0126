-- The length of a list.
--
-- requires: shared/shards

-- measure returns the lengths of the first shard, the last shard and the list, or nil and the error. In the state, lacks is how
-- many elements the part has less than a full shard.
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
  if list.part then
    local size
    size, problem = shard_length(list, list.part)
    if not size then
      return nil, problem
    end
    list.lacks = cap_at(list, list.part) - size
  end
  return head, tail, head + tail + full_length(list, list.first + 1, list.last - 1) - (list.part and list.lacks or 0)
end

-- length_of returns the length of a shard. head and tail are those of measure.
local function length_of(list, id, head, tail)
  return id == list.first and head or id == list.last and tail or cap_at(list, id) - (id == list.part and list.lacks or 0)
end

-- find_between returns the error for a shard between the ends that is not here. measure has found the ends.
local function find_between(list, id)
  if id == list.first or id == list.last then
    return nil
  end
  local _, problem = shard_length(list, id)
  return problem
end

-- unsplit returns how many elements commands/adopt.lua has to move from the end shards, which have these lengths.
local function unsplit(list, head, tail)
  local function from(left, size)
    local cap = cap_at(list, left and list.first or list.last)
    return math.max(0, size - cap, beside_part(list, left) and math.min(list.lacks, size) or 0)
  end
  return from(true, head) + (list.first < list.last and from(false, tail) or 0)
end
