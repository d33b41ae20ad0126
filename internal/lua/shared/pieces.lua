-- How many values one command takes.

local UNPACK_MAX = 1000 -- values that Lua may unpack at once
local PIECE = 16384 -- bytes that one command pushes, roughly: more would not stay in the processor's cache while it is copied
