-- The keys of a list.
--
-- KEYS[1] is meta. The plain key has the name of the list, and may hold a plain list. beside.lua tells of it, if it stands in
-- front. A list that watches it is one list with it; another one must not be empty beside it.
--
-- All keys share meta's hash tag, so a cluster keeps them on one node, except while their slot moves. Then a key may be away:
-- an access is an error on the node that gives the slot away, and the key looks absent on the node that receives it.

local META = KEYS[1]
local PREFIX = string.sub(META, 1, -5) -- without 'meta'
local PLAIN, BESIDE
if KEYS.word then
  PLAIN, BESIDE = KEYS.word ~= '' and string.sub(KEYS.word, 2) or nil, string.sub(KEYS.word, 1, 1)
elseif KEYS.plain then
  PLAIN, BESIDE = KEYS.plain[1], KEYS.how[1]
end
local AT_ONCE = BESIDE == '*' or BESIDE == '_'
local WATCHES = BESIDE == '*' or BESIDE == '+' or BESIDE == '^'
local STANDS_IN = WATCHES or BESIDE == '-' or BESIDE == '_'
local IDLE_MS = '30000' -- the TTL of the keys of an empty list

local new_prefix -- shared/identity.lua defines it, for who requires it
