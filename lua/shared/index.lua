-- Indices as Redis counts them: from 0 at the left end, and from -1 at the right end.
--
-- requires: shared/length

-- from_left returns an index counted from the left end. It is still negative if it lies to the left of the list.
local function from_left(index, length)
  return index < 0 and index + length or index
end

-- locate returns the id of the shard that holds an index and the index within that shard, or nil if the index is out of range.
-- head and length are those of measure.
local function locate(list, head, length, index)
  index = from_left(index, length)
  if index < 0 or index >= length then
    return nil
  end
  if index < head then
    return list.first, index
  end
  index = index - head
  if list.part and index >= full_length(list, list.first + 1, list.part) - list.lacks then
    index = index + list.lacks
  end
  local id, cap = list.first + 1, cap_at(list, list.first + 1)
  for _, step in ipairs(list.steps or {}) do
    if step.id > id and step.id <= list.last then
      local whole = (step.id - id) * cap
      if index < whole then
        break
      end
      index, id, cap = index - whole, step.id, step.cap
    end
  end
  local between = math.min(math.floor(index / cap), list.last - id) -- the last shard may be long
  return id + between, index - between * cap
end

-- clamp returns the first and the last index of a range, both counted from the left end. An empty range has first > last.
local function clamp(start, stop, length)
  return math.max(0, from_left(start, length)), math.min(from_left(stop, length), length - 1)
end
