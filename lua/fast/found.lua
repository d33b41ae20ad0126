-- Takes over a plain list beside a list that does not exist, as shared/take_over.lua does: so does the first operation of a
-- process that begins to use the library.
--
-- requires: fast/empty

-- plain_found returns the number of elements of the plain list, or 0 if this is not the common case. The shards with these two
-- ids may be made.
local function plain_found(shards, id, next_id)
  if SHARDS or not (FAST and RECORD and WATCHES) or string.sub(PLAIN, -5) == ':bell' then
    return 0
  end
  local size = redis.pcall('LLEN', PLAIN)
  if type(size) ~= 'number' or size == 0 or redis.call('PTTL', PLAIN) ~= -1 then
    return 0
  end
  return redis.pcall('EXISTS', META, PLAIN, shards .. id, shards .. next_id) == 1 and size or 0
end
