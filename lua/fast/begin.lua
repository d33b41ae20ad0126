-- Reads what a fast path at an end of a list has to know: the pointers, and that the operation is a new one.
--
-- A fast path runs before most helpers are defined: to define all that a push requires takes a third of a push of eight values.
-- So it checks by itself what the helpers check, and shares only formats with them. It leaves all cases but the common ones,
-- meta of a wrong type among them, to what is behind it, with nothing changed.
--
-- The ids of the end shards stay the strings that they are in meta: to convert a number to a string takes half as long as a
-- command. Compare no strings; SPAN is for that, the id of the right one minus that of the left one.
--
-- requires: fast/layout fast/record

local FAST -- whether a fast path may go on
local LEFT
local FIRST, LAST, SPAN, CAP, ARMED -- of a list that exists
local STORED, SHARDS -- the prefix of its shards' keys, as meta has it and in full
local NEAR -- the key of its shard at this end
local JOIN -- the end that newcomers join
local HAS_ELEMENTS

-- In each call:

FAST = not FIELD and BESIDE ~= '^' and (IS_NEW or not RECORD)
LEFT = ARGV[4] == 'L'
FIRST, LAST, SPAN, CAP, ARMED, STORED, SHARDS, NEAR, JOIN, HAS_ELEMENTS = nil, nil, nil, nil, nil, nil, nil, nil, 0, false
if FAST and type(WRITTEN) == 'string' then
  local more, first, last, cap, digit, shards = string.match(WRITTEN, POINTERS)
  local ending = more == '' and string.byte(shards, -1)
  FAST = ending and ending ~= EQUALS
  if FAST then
    STORED, SHARDS = shards, ending == COLON and shards or PREFIX .. shards .. ':'
    FIRST, LAST, SPAN, CAP = first, last, first == last and 0 or last - first, cap + 0
    digit = string.byte(digit) - 48
    ARMED, JOIN = digit % 2 == 1, (digit - digit % 2) / 2
    NEAR = SHARDS .. (LEFT and first or last)
    HAS_ELEMENTS = SPAN >= 0 and CAP > 0 and not (WATCHES and not ONLY_META and redis.pcall('EXISTS', PLAIN) ~= 0)
  end
elseif WRITTEN then
  FAST = false
end
