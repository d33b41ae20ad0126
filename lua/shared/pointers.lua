-- The pointers: the field layout of meta. shared/write_pointers.lua writes it.
--
-- The field holds the version of this layout, with a '+' behind it if there may be other fields; and, after spaces, the ids
-- of the end shards, the capacity, a digit, and the prefix of the shards' keys. The ids of an empty list are n and n-1. The
-- capacity is the number of elements in a full shard, fixed while the list has shards, unless it is one long shard, see
-- shared/take_over.lua. Only an empty list is armed. Scripts refuse a version that they do not know.
--
-- The digit is 1 if a consumer waits on the bell or else 0, plus twice the end that newcomers join, see shared/take_in.lua: 0
-- if that is not known yet, 1 for the left and 2 for the right because somebody has pushed there, 3 for the left and 4 for
-- the right because somebody has popped at the other end.
--
-- A prefix ends with a colon. Unless the list was renamed, it begins as the other keys of the list do, and is stored without
-- that part and without the colon: so the field has fewer than 64 bytes, and meta its small form, however long the name.
--
-- A list that commands/restore.lua has turned into a plain list has its plain key, between two '=', in place of the prefix.
-- That key is its only shard, whatever the ids and the capacity say.
--
-- It is one field, because to read seven was a third of a push.
--
-- requires: shared/keys

local LAYOUT = '3'
local COLON = 58 -- as string.byte has it
local EQUALS = 61 -- '='
local SHARD_BYTES = 131072 -- that a full shard has, about, where nobody has set a capacity in elements
local LEAST, MOST = 16, 8192 -- elements of such a shard
local POINTERS = '^3(%+?) (%-?%d+) (%-?%d+) (%d+) (%d) (.*)$'
