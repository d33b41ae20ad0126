-- The keys of a list.
--
-- KEYS[1] is meta. KEYS.plain, of beside.lua, is optional: the plain key that the list stands in for. It must hold nothing
-- while the list is in use. So a list that has elements need not look at it.
--
-- All keys share meta's hash tag, so a cluster keeps them on one node, except while their slot moves. Then a key may be away:
-- an access is an error on the node that gives the slot away, and the key looks absent on the node that receives it.

local META = KEYS[1]
local PREFIX = string.sub(META, 1, -5) -- without 'meta'
local PLAIN = KEYS.plain and KEYS.plain[1]
local IDLE_MS = 30000 -- the TTL of the keys of an empty list
