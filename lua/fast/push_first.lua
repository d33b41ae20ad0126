-- Pushes values into other empty lists, and rings if a consumer waits. Or pushes them beside a long plain list, which becomes a
-- shard. KEYS and ARGV are those of commands/push.lua.
--
-- requires: fast/push_empty fast/found shared/join

-- In each call:

if FAST and is_free() and (not ARMED or is_here(BELL)) then
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
    save_record(VALUE_COUNT)
    return VALUE_COUNT
  end
end
if FAST and not SHARDS and WATCHES then
  local left, cap = ARGV[4] == 'L', tonumber(ARGV[5])
  local shards, id = new_prefix(), left and -1 or 1
  local length = plain_found(shards, 0, id)
  local is_long = length > math.max(TAKEN_CAPACITY, cap)
  local suits = is_long and cap <= MOVE_STEP and cap * #redis.call('LINDEX', PLAIN, 0) <= MOVE_BYTES
  if suits and type(redis.pcall('RPUSHX', PREFIX .. 'never', '')) == 'number' then
    redis.call('RENAME', PLAIN, shards .. 0)
    redis.call(left and 'LPUSH' or 'RPUSH', shards .. id, unpack(ARGV, 6))
    write_pointers(false, math.min(id, 0), math.max(id, 0), ARGV[5], false, pushed_at(left), shards)
    save_record(length + VALUE_COUNT)
    return length + VALUE_COUNT
  end
end
