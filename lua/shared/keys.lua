-- The keys of a list.
--
-- KEYS[1] is meta. The plain key has the name of the list: it is the list while it is short, and holds newcomers beside a long
-- one.
--
-- All keys share meta's hash tag, so a cluster keeps them on one node, except while their slot moves. Then a key may be away:
-- an access is an error on the node that gives the slot away, and the key looks absent on the node that receives it.
--
-- ARGV  in front of all others, and taken away before anybody counts them: for each key a word that tells of a plain key, or
--       '' if it is none of a list.
--       Plain keys are not declared: while the slot moves, Redis refuses a script of whose keys only some are here. Before a
--       plain key is
--         '+'  as a rule
--         '*'  in a pipeline or transaction: the script must do all at once, whatever it takes
--         '^'  for an operation that puts elements back where they were popped
--         '.'  for a list that stays at its plain key, whatever its length: no meta is read or written
--       A call may go to the node that has the plain keys, where the metas are not: then those are declared, and before such a
--       character and the meta is a '='.

local META
local PREFIX -- that of META, without 'meta'
local PLAIN, BESIDE -- the plain key, and the character before it
local AT_ONCE
local BY_PLAIN -- whether the plain keys are declared
local IDLE_MS = '30000' -- the TTL of the keys of an empty list
local CREATES -- whether the script requires shared/identity.lua, which defines this:
local new_prefix

-- stand_beside takes what a word says of the plain key.
local function stand_beside(word)
  PLAIN, BESIDE = word ~= '' and string.sub(word, 2) or nil, word ~= '' and string.sub(word, 1, 1) or nil
  AT_ONCE = BESIDE == '*'
end

-- In each call:

CREATES = false
BY_PLAIN = string.byte(ARGV[1], 1) == 61 -- '='
if BY_PLAIN then
  for i = 1, #KEYS do
    if ARGV[i] ~= '' then
      KEYS[i], ARGV[i] = string.sub(ARGV[i], 3), string.sub(ARGV[i], 2, 2) .. KEYS[i]
    end
  end
end
META = KEYS[1]
PREFIX = string.sub(META, 1, -5)
if #KEYS == 1 then
  stand_beside(table.remove(ARGV, 1))
else
  local keys = #KEYS
  KEYS.words = {}
  for i = 1, #ARGV do
    if i <= keys then
      KEYS.words[i] = ARGV[i]
    end
    ARGV[i] = ARGV[i + keys]
  end
  stand_beside(KEYS.words[1])
end
