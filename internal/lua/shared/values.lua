-- Pushes any number of values.

local UNPACK_MAX = 1000 -- values that Lua may unpack at once
local PIECE = 16384 -- bytes that one command pushes, roughly: more would not stay in the processor's cache while it is copied

-- push_values pushes values[from] to values[to], one after the other.
local function push_values(PUSH, key, values, from, to)
  while from <= to do
    local size = math.min(UNPACK_MAX, to - from + 1, 1 + math.floor(PIECE / (#values[from] + 1)))
    redis.call(PUSH, key, unpack(values, from, from + size - 1))
    from = from + size
  end
end
