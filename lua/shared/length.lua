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

-- shard_lengths adds the lengths of shards, from one to another in steps of 1 or -1, to those of shards by id. It returns the
-- error for one that is not here. Shards between the ends are full, so that is one call for many.
local function shard_lengths(list, from, to, step, lengths)
  local ids, keys = {}, {}
  for id = from, to, step do
    if not lengths[id] and id > list.first and id < list.last and id ~= list.part then
      ids[#ids + 1], keys[#keys + 1] = id, list.shards .. id
    end
    if #keys == 1000 or id == to then
      local all = #keys > 0 and redis.call('EXISTS', unpack(keys)) == #keys
      for _, full in ipairs(all and ids or {}) do
        lengths[full] = cap_at(list, full)
      end
      ids, keys = {}, {}
    end
  end
  for id = from, to, step do
    if not lengths[id] then
      local problem
      lengths[id], problem = shard_length(list, id)
      if problem then
        return problem
      end
    end
  end
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
