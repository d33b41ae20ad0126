-- Finds out whether an operation with a dedup record is a new one.
--
-- It defines no functions and converts no numbers to strings: where the command is a script, either takes half as long as a
-- command.
--
-- requires: shared/present

local WAS_LARGE -- whether the session's last result was large, or may be in POPPED

-- In each call:

WAS_LARGE = nil
if NO_RECORD then
  IS_NEW, OTHERS = true, PLAIN and PRESENT
elseif RECORD then
  local before = redis.pcall('GETRANGE', RECORD, '0', LAST_OF_LARGE)
  if before == '' then -- there is none
    IS_NEW = UNSENT or type(PRESENT or redis.pcall('EXISTS', META, RECORD)) == 'number' -- it is not on another node
    OTHERS = PLAIN and type(PRESENT) == 'number' and PRESENT
  elseif type(before) == 'string' then
    IS_NEW = tonumber(string.match(before, '^%d+')) < SEQUENCE
    KEEPS_TTL = IS_NEW and not RENEWS
    WAS_LARGE = IS_NEW and (#before == LARGE or string.byte(before, -1) == AT)
    OTHERS = PLAIN and type(PRESENT) == 'number' and PRESENT - 1
    NOTHING = PRESENT == 1 -- there is only the record
    NO_PLAIN = OTHERS == 0 or OTHERS == 1
  end
end
