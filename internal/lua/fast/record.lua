-- Finds out whether an operation with a dedup record is a new one, before most helpers are defined.
--
-- requires: shared/operation

local WAS_LARGE -- whether the session's last result was large, or had several elements

-- is_new tells whether the record says for sure that the operation has not been done. If so, it may be written.
local function is_new()
  local before = redis.pcall('GETRANGE', RECORD, 0, LARGE - 1)
  if before == '' then -- there is none
    IS_NEW = type(redis.pcall('EXISTS', META, RECORD)) == 'number' -- it is not on another node
    return IS_NEW
  end
  IS_NEW = type(before) == 'string' and tonumber(string.match(before, '^%d+')) < SEQUENCE
  KEEPS_TTL = IS_NEW and not RENEWS
  WAS_LARGE = IS_NEW and (#before == LARGE or string.byte(before, -1) == AT)
  return IS_NEW
end
