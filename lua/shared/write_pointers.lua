-- Writes the pointers.
--
-- requires: shared/pointers

-- write_pointers writes the field layout. more tells whether there may be other fields, join the end that newcomers join.
local function write_pointers(more, first, last, cap, armed, join, shards)
  local own = string.sub(shards, 1, #PREFIX + 1) == PREFIX .. '#'
  if own and string.find(shards, ':', #PREFIX + 1, true) == #shards then -- an identity is behind it, and nothing else
    shards = string.sub(shards, #PREFIX + 1, -2)
  end
  local digit = (armed and 1 or 0) + 2 * join
  local layout = LAYOUT .. (more and '+ ' or ' ') .. first .. ' ' .. last .. ' ' .. cap .. ' ' .. digit .. ' ' .. shards
  redis.call('HSET', META, 'layout', layout)
end
