-- Pops any number of elements from an end of a list.
--
-- requires: shared/list shared/emptied shared/shrink

-- plan_take reads the shards that up to count elements will come from. It returns an array of how many elements each shard
-- gives, from the end inward, their total, and the id at which the end is after the pop; or nil and the error. That id is
-- beyond the other end if the pop empties the list.
local function plan_take(list, left, count)
  local first, last = list.first, list.last
  local id, step = left and first or last, left and 1 or -1
  local parts, total = {}, 0
  while total < count and id >= first and id <= last do
    local size, problem = shard_length(list, id)
    if not size then
      return nil, problem
    end
    local part = math.min(count - total, size)
    parts[#parts + 1] = part
    total = total + part
    if part < size then
      break
    end
    id = id + step
  end
  return parts, total, id
end

-- take_planned pops what plan_take has planned. It returns arrays of elements, one for each shard, in the order popped. OOM
-- allows its first write. It deletes the meta of a list that it empties, unless keep_meta says otherwise.
local function take_planned(list, left, parts, stop, keep_meta)
  local POP, id, step = left and 'LPOP' or 'RPOP', left and list.first or list.last, left and 1 or -1
  local shards = {}
  for i, part in ipairs(parts) do
    shards[i] = redis.call(POP, list.shards .. (id + (i - 1) * step), part)
  end
  if stop == id then
    shrink(list)
    return shards
  end
  if stop < list.first or stop > list.last then
    on_emptied(list, keep_meta)
  else
    list[left and 'first' or 'last'] = stop
    save_list(list)
    shrink(list)
  end
  return shards
end
