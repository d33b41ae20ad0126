-- What is at the key of a list that is not there.
--
-- requires: shared/list shared/plain

-- of_key carries out the words of ARGV from a position on, a command on the plain key. It returns the reply behind 'KEY', or
-- false if there are no words. writes tells that the command may write: the key must be none that another list is stored in.
local function of_key(from, writes)
  if not ARGV[from] then
    return false
  end
  if writes and PLAIN then
    local is_meta = string.sub(PLAIN, -5) == ':meta' and redis.pcall('HEXISTS', PLAIN, 'layout') == 1
    local owner = is_meta and PLAIN or rung_by(PLAIN)
    if owner then
      return redis.error_reply('RESERVED the key belongs to the sharded list that has ' .. owner)
    end
  end
  return { 'KEY', redis.call(unpack(ARGV, from)) }
end
