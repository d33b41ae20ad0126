-- A short list as its plain key.
--
-- requires: shared/session

-- short_key returns the plain key and its length, if the list is what the key holds, and nothing else is known of it: then an
-- operation is the command itself. It returns nil where open has to look.
local function short_key()
  local known = (IS_NEW or not RECORD) and not FIELD and BESIDE ~= '^' and OTHERS == 1 and not WRITTEN
  if not known or string.sub(PLAIN, -5) == ':bell' then
    return nil
  end
  local size = redis.pcall('LLEN', PLAIN)
  if type(size) == 'number' and size > 0 then
    return PLAIN, size
  end
end
