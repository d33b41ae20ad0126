-- Pushes any number of values.
--
-- requires: shared/pieces

-- push_values pushes values[from] to values[to], one after the other. They are strings, or numbers from a script of the user's.
local function push_values(PUSH, key, values, from, to)
  while from <= to do
    local size = math.min(UNPACK_MAX, to - from + 1, 1 + math.floor(PIECE / (#tostring(values[from]) + 1)))
    redis.call(PUSH, key, unpack(values, from, from + size - 1))
    from = from + size
  end
end
