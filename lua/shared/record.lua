-- Writes the dedup record of an operation.
--
-- requires: shared/operation

-- save_record writes the record to its key, if it has one.
local function save_record(result)
  if KEEPS_TTL then
    redis.call('SET', RECORD, ARGV[2] .. ':' .. result, 'KEEPTTL')
  elseif RECORD then
    redis.call('SET', RECORD, ARGV[2] .. ':' .. result, 'PX', LIFE)
  end
end
