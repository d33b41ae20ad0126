-- Tells those who have subscribed to a bell that it rings.

-- publish tells them, if this user may. Older servers have no such channels, and do not say what a user may.
local function publish(bell)
  local may = redis.acl_check_cmd
  if may and may('SPUBLISH', bell, '') then
    redis.pcall('SPUBLISH', bell, '')
  end
end
