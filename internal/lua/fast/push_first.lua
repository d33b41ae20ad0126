-- Pushes values into an empty list, or one that does not exist, and rings if a consumer waits: so does nearly every push into a
-- list whose consumers keep up. KEYS and ARGV are those of commands/push.lua.
--
-- requires: fast/push fast/empty

if FAST and RECORD and COUNT <= (tonumber(ARGV[5]) or 0) and is_free() and (not ARMED or is_here(BELL)) then
  local left = ARGV[4] == 'L'
  local id = SHARDS and (left and FIRST - 1 or LAST + 1) or left and -1 or 0
  if not SHARDS or redis.pcall('EXISTS', META, SHARDS .. id) == 1 then -- nothing stale is at the new shard
    local shards = SHARDS or new_prefix()
    write_pointers(false, id, id, ARGV[5], false, WATCHES and join_after(JOIN, pushed_at(left)) or JOIN, shards)
    redis.call(left and 'LPUSH' or 'RPUSH', shards .. id, unpack(ARGV, 6))
    if SHARDS then
      redis.call('PERSIST', META)
    end
    if ARMED then
      ring()
    end
    save_record(COUNT)
    return COUNT
  end
end
