-- The keys of a list.
--
-- KEYS[1] is meta. The plain key has the name of the list, and may hold a plain list. A list that watches it is one list with
-- it; another one must not be empty beside it.
--
-- All keys share meta's hash tag, so a cluster keeps them on one node, except while their slot moves. Then a key may be away:
-- an access is an error on the node that gives the slot away, and the key looks absent on the node that receives it.
--
-- ARGV  in front of all others, and taken away before anybody counts them: for each key a word that tells of a plain key, or
--       ''.
--       Plain keys are not declared: while the slot moves, Redis refuses a script of whose keys only some are here. Before a
--       plain key is
--         '+'  if the list stands in for the key, and watches it: the two are one list
--         '*'  the same, in a pipeline or transaction: the script must do all at once, whatever it takes
--         '^'  the same, for an operation that puts elements back where they were popped
--         '-'  if the list stands in for the key: an empty list beside a plain list is an error, and so is one beside another
--              type
--         '_'  the same, in a pipeline or transaction
--         '?'  if an empty list beside a plain list is an error

local META
local PREFIX -- that of META, without 'meta'
local PLAIN, BESIDE -- the plain key, and the character before it
local AT_ONCE, WATCHES, STANDS_IN
local IDLE_MS = '30000' -- the TTL of the keys of an empty list
local CREATES -- whether the script requires shared/identity.lua, which defines this:
local new_prefix

-- stand_beside takes what a word says of the plain key.
local function stand_beside(word)
  PLAIN, BESIDE = word ~= '' and string.sub(word, 2) or nil, word ~= '' and string.sub(word, 1, 1) or nil
  AT_ONCE = BESIDE == '*' or BESIDE == '_'
  WATCHES = BESIDE == '*' or BESIDE == '+' or BESIDE == '^'
  STANDS_IN = WATCHES or BESIDE == '-' or BESIDE == '_'
end

-- In each call:

CREATES = false
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
