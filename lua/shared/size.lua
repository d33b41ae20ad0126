-- Lengths of keys that may be anything.
--
-- requires: shared/list

-- size_of returns the length of the list at a key, or nil and whether the key may be on another node. If it is not, the key
-- holds something else.
local function size_of(key)
  local size = redis.pcall('LLEN', key)
  if type(size) == 'table' then
    return nil, not string.find(size.err, 'WRONGTYPE', 1, true) and is_moving(size)
  elseif size == 0 and is_away(key) then
    return nil, true
  end
  return size
end
