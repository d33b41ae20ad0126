-- Keys that may be on another node, while their slot moves.
--
-- requires: shared/keys

-- is_moving tells whether a pcall failed because a key may be on another node. It raises any other error. Server versions
-- differ in their words, which are those of IsTransient in internal/script.
local function is_moving(reply)
  if type(reply) ~= 'table' then
    return false
  end
  for _, words in ipairs({ 'ttempted to access a non local key', 'during rehashing of the slot', 'TRYAGAIN' }) do
    if string.find(reply.err, words, 1, true) then
      return true
    end
  end
  error(reply.err, 0)
end

-- is_away tells whether a key may be on another node. A command on two keys finds out: it fails unless both are here.
local function is_away(key)
  return is_moving(redis.pcall('EXISTS', META, key))
end

-- missing returns the error for a shard that the pointers promise and that is not here: its slot moves, or the list is broken.
local function missing(list, id)
  if is_away(list.shards .. id) then
    return redis.error_reply('TRYAGAIN shard ' .. id .. ' is moving to another node')
  end
  return redis.error_reply('BROKENLIST shard ' .. id .. ' is missing: shardedlist repair closes the gap')
end

-- unreadable returns the error to reply with, if a shard is no list, or is away. With a raw error, the client would look for
-- the list where its plain key may be.
local function unreadable(list, id)
  local size = redis.pcall('LLEN', list.shards .. id)
  if type(size) == 'table' then
    return string.find(size.err, 'WRONGTYPE', 1, true) and size or missing(list, id)
  end
end
