-- What the first commands of an operation have found out: shared/present.lua, shared/layout.lua and shared/is_new.lua.
--
-- requires: shared/keys

local PRESENT -- how many of meta, the record and the plain key exist, if that was asked; an error if some are on another node
local OTHERS -- how many of meta and the plain key exist, if that is known
local NO_RECORD -- whether it is known that there is none
local NOTHING -- whether it is known that there is neither meta nor a plain key
local NO_PLAIN -- whether it is known that, if there is a meta, there is no plain key beside it
local WRITTEN -- the field of meta that holds the pointers; an error if it cannot be read; nil if there is none
local WAS_READ -- whether WRITTEN was read, and no list has been opened since

-- In each call:

PRESENT, OTHERS, NO_RECORD, NOTHING, NO_PLAIN, WRITTEN, WAS_READ = nil, nil, false, false, false, nil, false
