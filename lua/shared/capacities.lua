-- The capacities of the shards of a list whose elements change their size on the way.
--
-- Shards between the ends are full, so that indices can be computed. All have the capacity of the layout, until the values at
-- an end become so large that its shard would have more than SHARD_LIMIT bytes. Then that shard is closed: its length is its
-- capacity, and new ones beyond it have a smaller one, or again a larger one when the values have become small.
--
-- Meta has the steps in the field caps: the capacity that the list began with, and '<id>:<capacity>' for each shard from which
-- on, to the right, another capacity holds. The layout has the capacity of the shards to the left of the first step.
--
-- requires: shared/pointers

-- The bytes of values in a shard of more than LEAST: with what the server adds, it has less than 1 MiB.
local SHARD_LIMIT = 786432

-- is_crowded tells whether a shard of that capacity would be too large, full of values of that many bytes. how is as for
-- capacity_for.
local function is_crowded(cap, bytes, how)
  return cap > LEAST and cap * bytes > SHARD_LIMIT * (how < 0 and 4 or 1)
end

-- cap_at returns the capacity of a shard.
local function cap_at(list, id)
  local cap = list.cap
  for _, step in ipairs(list.steps or {}) do
    if id < step.id then
      break
    end
    cap = step.cap
  end
  return cap
end

-- full_length returns how many elements are in the shards from one id to another, both included, if they are full.
local function full_length(list, from, to)
  local total, cap = 0, list.cap
  for _, step in ipairs(list.steps or {}) do
    if step.id > from and from <= to then
      local behind = math.min(step.id, to + 1)
      total, from = total + (behind - from) * cap, behind
    end
    cap = step.cap
  end
  return total + math.max(0, to - from + 1) * cap
end
