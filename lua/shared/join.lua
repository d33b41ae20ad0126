-- The end that newcomers join, see shared/take_in.lua, as the digit of the pointers has it.
--
-- requires: shared/pointers

-- pushed_at and popped_at return the end that they join after a push or a pop.
local function pushed_at(left)
  return left and 1 or 2
end
local function popped_at(left)
  return left and 4 or 3
end

-- join_after returns the end that they join, given what was known and what an operation says of it. A pop decides it, and a
-- push until then.
local function join_after(known, says)
  if says and (known == 0 or known < 3 and says > 2) then
    return says
  end
  return known
end
