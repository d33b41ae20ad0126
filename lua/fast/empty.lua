-- What the fast paths on a list that is empty, or becomes empty, have in common.
--
-- requires: fast/begin shared/write_pointers shared/ring shared/identity shared/record

-- is_here tells whether a key is a list or absent, and not on another node.
local function is_here(key)
  return type(redis.pcall('EXISTS', META, key)) == 'number' and type(redis.pcall('LLEN', key)) == 'number'
end

-- is_free tells whether an empty list may be used: its plain key holds nothing, and its shards are known if there is a meta.
local function is_free()
  local empty, here = not SHARDS or SPAN < 0, SHARDS and 1 or 0
  return empty and redis.pcall('EXISTS', META, PLAIN or PREFIX .. 'never') == here
end
