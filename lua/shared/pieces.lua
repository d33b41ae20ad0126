-- How many values one command takes, and one script.

local UNPACK_MAX = 1000 -- values that Lua may unpack at once
local MOVE_STEP = 1000 -- elements that one script moves from key to key, see shared/carve.lua
local MOVE_BYTES = 262144 -- that it moves, or one element that is larger
local PIECE = 16384 -- bytes that one command pushes, roughly: more would not stay in the processor's cache while it is copied
