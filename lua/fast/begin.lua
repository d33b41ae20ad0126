-- Reads what a fast path at an end of a list has to know: the pointers, and that the operation is a new one.
--
-- A fast path sends four commands where the command itself sends seven. As a script it also runs before most helpers are
-- defined. In thousands of instructions of Redis 7.0, as functions, with it and without; a plain RPUSH takes 7:
--
--   push of one value 90, 141; of four 107, 153        pop of one 93, 150; of four 152, 205
--   push onto an empty list, or its pop 95, 161        pop of an empty list 73, 112
--   spread: push 94, 164                               spread: pop 107, 200
--   LINDEX 61, 89
--
-- (cd tests/bench && go run ./instructions.)
--
-- It checks by itself what the helpers check, and shares only formats with them. It leaves all cases but the common ones, meta
-- of a wrong type among them, to what is behind it, with nothing changed.
--
-- The ids of the end shards stay the strings that they are in meta: to convert a number to a string takes half as long as a
-- command. Compare no strings; SPAN is for that, the id of the right one minus that of the left one.
--
-- requires: shared/layout shared/is_new

local FAST -- whether a fast path may go on
local LEFT
local FIRST, LAST, SPAN, CAP, ARMED -- of a list that exists
local SHARDS -- the prefix of its shards' keys
local NEAR -- the key of its shard at this end, or the plain key
local JOIN -- the end that newcomers join
local HAS_ELEMENTS -- whether there are shards, and no newcomers
local SHORT -- whether the list is what the plain key holds, as far as meta says; then NEAR may be absent, or of any type
local EXPIRES -- whether the list has an expiry, or is being searched: then its pointers have to stay as they are

-- In each call:

FAST = not FIELD and BESIDE ~= '^' and (IS_NEW or not RECORD)
LEFT = ARGV[4] == 'L'
FIRST, LAST, SPAN, CAP, ARMED, SHARDS, NEAR, JOIN, HAS_ELEMENTS = nil, nil, nil, nil, nil, nil, nil, 0, false
EXPIRES, SHORT = false, false
if FAST and type(WRITTEN) == 'string' then
  local more, first, last, cap, digit, shards = string.match(WRITTEN, POINTERS)
  local ending = more and string.byte(shards, -1)
  FAST = ending and ending ~= EQUALS
  if FAST and more == '+' then -- an expiry and searches may be there, if nothing else is
    local m = redis.call('HMGET', META, 'expires', 'stale', 'records', 'walk', 'restores', 'part', 'caps', 'searches')
    EXPIRES = (m[1] or m[8]) and not (m[2] or m[3] or m[4] or m[5] or m[6] or m[7])
    local time = EXPIRES and m[1] and redis.call('TIME')
    EXPIRES = EXPIRES and (not time or time[1] * 1000 + time[2] / 1000 < m[1] + 0)
    FAST = EXPIRES and first + 0 <= last + 0
  end
  if FAST then
    SHARDS = ending == COLON and shards or PREFIX .. shards .. ':'
    FIRST, LAST, SPAN, CAP = first, last, first == last and 0 or last - first, cap + 0
    digit = string.byte(digit) - 48
    ARMED, JOIN = digit % 2 == 1, (digit - digit % 2) / 2
    NEAR = SHARDS .. (LEFT and first or last)
    HAS_ELEMENTS = SPAN >= 0 and CAP > 0 and (NO_PLAIN or redis.pcall('EXISTS', PLAIN) == 0)
    SHORT = SPAN < 0 and more == ''
  end
elseif WRITTEN then
  FAST = false
else
  ARMED, SHORT = false, FAST
end
SHORT = SHORT and (OTHERS == 0 or OTHERS == 1 or OTHERS == 2) and string.sub(PLAIN, -5) ~= ':bell'
if SHORT then
  NEAR = PLAIN
end
