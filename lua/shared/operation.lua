-- The operation that a script carries out, and its dedup record. shared/session.lua explains them.
--
-- ARGV  1 the id of the session, 2 the sequence number, 3 the TTL of the record in milliseconds, with a minus if it need
--       not begin anew, which is faster, or with a plus if nothing has been sent under this id that may have been done; 2 and
--       3 are '' for an operation that may run twice
--
-- requires: shared/keys

local SEQUENCE
local RENEWS -- whether the TTL of the record has to begin anew
local UNSENT -- whether no record can be on another node
local LIFE
local FIELD -- the field of meta that holds the record, or false
local RECORD -- the key that holds it, or false
local AT = 64 -- '@', as string.byte has it
local LARGE = 4096 -- a record of this many bytes is read in full only if needed: to copy it costs more than the operation
local LAST_OF_LARGE = '4095' -- the index of the last of them
local KEEPS_TTL -- whether there is a record, and it keeps its TTL
local IS_NEW -- whether a fast path has found in the record that the operation has not been done

-- In each call:

SEQUENCE = tonumber(ARGV[2])
RENEWS = string.byte(ARGV[3]) ~= 45 -- '-'
UNSENT = string.byte(ARGV[3]) == 43 -- '+'
LIFE = RENEWS and not UNSENT and ARGV[3] or string.sub(ARGV[3], 2)
FIELD = string.byte(ARGV[1]) == AT and 'op:' .. ARGV[1]
RECORD = SEQUENCE and not FIELD and PREFIX .. 'op:' .. ARGV[1]
KEEPS_TTL, IS_NEW = false, false
