-- Writes the pointers.
--
-- requires: shared/pointers

-- write_pointers writes the field layout. more tells whether there may be other fields.
local function write_pointers(more, first, last, cap, armed, shards)
  local own = string.sub(shards, 1, #PREFIX + 1) == PREFIX .. '#'
  if own and string.find(shards, ':', #PREFIX + 1, true) == #shards then -- an identity is behind it, and nothing else
    shards = string.sub(shards, #PREFIX + 1, -2)
  end
  local layout = LAYOUT .. (more and '+ ' or ' ') .. first .. ' ' .. last .. ' ' .. cap .. (armed and ' 1 ' or ' 0 ') .. shards
  redis.call('HSET', META, 'layout', layout)
end
