-- Elements in the dedup record. shared/session.lua documents the format.
--
-- requires: shared/operation shared/values shared/record

local POPPED -- the key for several elements, or a large one: a list
local POPPED_IS_HERE -- whether the script has made sure of that

-- save_popped writes elements, which are in arrays, to the record, behind the head of the result. It pushes several of them, or
-- a large one, to POPPED and trims the older ones: unless they are few and small, joining them in Lua costs far more than
-- popping them.
local function save_popped(head, shards, total)
  if total == 1 and not (POPPED_IS_HERE and #shards[1][1] >= LARGE) then
    save_record(head .. '=' .. shards[1][1])
  elseif POPPED then
    for _, shard in ipairs(shards) do
      push_values('RPUSH', POPPED, shard, 1, #shard)
    end
    redis.call('LTRIM', POPPED, -total, -1)
    redis.call('PEXPIRE', POPPED, LIFE)
    save_record(head .. '@')
  end
end

-- In each call:

POPPED = RECORD and RECORD .. ':popped'
POPPED_IS_HERE = false
