-- Names the shards of a list that is created.
--
-- A list that has been renamed keeps the keys of its shards, so a new list of the old name needs others. Their prefix contains
-- an identity: the end of the id of the session, which is random, and the sequence number of the operation that creates the
-- list. No other operation has both. One without a number may run twice, so it takes the server's time instead. The time alone
-- would not do: clocks are set back, and newer servers stop theirs while a transaction runs.
--
-- requires: shared/keys

-- new_prefix returns a prefix that no other list has.
function new_prefix()
  local number = ARGV[2] ~= '' and ARGV[2] or table.concat(redis.call('TIME'))
  return PREFIX .. '#' .. string.sub(ARGV[1], -12) .. '.' .. number .. ':'
end

-- identify sets the prefix of the shards' keys if there is no meta to say it, and tells whether it did.
local function identify(list)
  if list.shards then
    return false
  end
  list.shards = new_prefix()
  return true
end

-- In each call:

CREATES = true
