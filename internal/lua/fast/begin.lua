-- Reads what a fast path at an end of a list has to know: the pointers, and that the operation is a new one.
--
-- A fast path runs before most helpers are defined: to define all that a push requires takes a third of a push of eight values.
-- So it checks by itself what the helpers check, and shares only formats and a few small functions with them. It leaves all
-- cases but the common ones, meta of a wrong type among them, to what is behind it, with nothing changed.
--
-- requires: shared/pointers fast/record

local FAST = not FIELD and BESIDE ~= '^' -- whether a fast path may go on
local FIRST, LAST, CAP, ARMED, SHARDS -- of a list that exists
local JOIN = 0 -- the end that newcomers join
local WRITTEN -- the field that holds them
if FAST then
  local layout = redis.pcall('HGET', META, 'layout')
  if type(layout) == 'string' then
    local more, first, last, cap, digit, shards = string.match(layout, POINTERS)
    FAST = more == '' and shards ~= '' and string.byte(shards, -1) ~= EQUALS
    FIRST, LAST, CAP, SHARDS = tonumber(first), tonumber(last), tonumber(cap), shards
    WRITTEN = layout
    if FAST then
      ARMED, JOIN = digit % 2 == 1, math.floor(digit / 2)
    end
    if FAST and string.byte(shards, -1) ~= COLON then
      SHARDS = PREFIX .. shards .. ':'
    end
  elseif layout then
    FAST = false
  end
end
FAST = FAST and (not RECORD or is_new())
local HAS_ELEMENTS = FAST and SHARDS and FIRST <= LAST and CAP > 0 and not (WATCHES and redis.pcall('EXISTS', PLAIN) ~= 0)
