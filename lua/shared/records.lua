-- Dedup records in meta, see shared/session.lua.
--
-- Fields do not expire. So each begins with the Unix time in milliseconds until which it is needed, and a colon. Whoever adds
-- one drops the old ones, and so does a sweep after the time of all. Until then, or until meta goes, a few bytes may stay.

-- drop_old_records drops the records in a meta that are not needed any more.
local function drop_old_records(meta, now)
  local fields = redis.call('HGETALL', meta)
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    if string.sub(field, 1, 3) == 'op:' or field == 'records' then
      if tonumber(string.match(value, '^%d+')) < now then
        redis.call('HDEL', meta, field)
      end
    end
  end
end
