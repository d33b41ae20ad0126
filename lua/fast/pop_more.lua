-- Pops elements for any caller, from a shard that has more or from a list of one shard, or takes a plain list over and pops, or
-- finds the list empty. KEYS and ARGV are those of commands/pop.lua.
--
-- requires: fast/pop_woken fast/found shared/join shared/popped

local JOIN_NOW
local REFUSED -- whether the server does not allow SORT

-- leave moves elements to POPPED, past Lua, which hashes each byte of a string. It returns how many, or nil if SORT is not
-- allowed.
local function leave(near, left, size)
  if left and size <= COUNT then
    redis.call('RENAME', near, POPPED)
    return size
  end
  redis.call('PEXPIRE', POPPED, LIFE) -- OOM allows this, and then SORT; to make POPPED anew is refused while the slot moves
  local order = left and 'ASC' or 'DESC'
  local moved = redis.pcall('SORT', near, 'BY', 'nosort', order, 'LIMIT', 0, COUNT, 'STORE', POPPED)
  REFUSED = type(moved) ~= 'number'
  if not REFUSED then
    redis.call('LTRIM', near, left and COUNT or 0, left and -1 or -COUNT - 1)
    return moved
  end
end

-- In each call:

FAST = FAST and not EXPIRES and COUNT > 0 and COUNT < UNPACK_MAX
JOIN_NOW = WATCHES and join_after(JOIN, popped_at(ARGV[4] == 'L')) or JOIN
if FAST and POPPED and (COUNT > 1 or WAS_LARGE or LEAVES) then
  FAST = is_here(POPPED)
  POPPED_IS_HERE = FAST
end
REFUSED = false
if FAST and HOW ~= 'no' then
  FAST = is_here(BELL) and (HOW ~= 'woken' or ARGV[7] == '' or redis.pcall('EXISTS', ARGV[7]) == 0)
end
if FAST and HAS_ELEMENTS then
  local left, near = LEFT, NEAR
  local size = redis.call('LLEN', near)
  local waits = size < COUNT and HOW ~= 'no' and HOW ~= 'woken'
  local is_last = size > 0 and size <= COUNT and SPAN == 0
  local more = size < COUNT and ARGV[7] == 'part'
  local is_whole = (more or size == COUNT) and size > 0 and SPAN > 0 and HOW == 'no' and JOIN_NOW == JOIN
  local gone = is_whole and LEAVES and POPPED and leave(near, left, size)
  if gone then
    write_pointers(false, left and FIRST + 1 or FIRST, left and LAST or LAST - 1, CAP, false, JOIN, SHARDS)
    redis.call('PEXPIRE', POPPED, LIFE)
    save_record(more and 'MORE@' or '@')
    return { more and 5 or 3, gone }
  end
  if size > COUNT and (JOIN > 2 or not WATCHES) or is_last and not waits then
    local number = LEAVES and POPPED and leave(near, left, size)
    local values = not number and redis.call(left and 'LPOP' or 'RPOP', near, COUNT)
    if HOW == 'woken' and size > COUNT then
      ring()
    elseif HOW == 'woken' then
      redis.call('DEL', BELL)
      write_pointers(false, 0, -1, CAP, true, JOIN_NOW, SHARDS)
      redis.call('PEXPIRE', META, IDLE_MS)
    elseif size <= COUNT then
      redis.call('DEL', META)
    end
    if number then
      redis.call('PEXPIRE', POPPED, LIFE)
      save_record('@')
      return { 3, number }
    end
    save_popped('', { values }, #values)
    return { REFUSED and 4 or 0, values }
  end
elseif FAST and RECORD and is_free() then
  if LEAVES then
    redis.call('DEL', POPPED) -- the caller is about to read it
  end
  if HOW == 'no' then
    redis.call('PEXPIRE', RECORD, LIFE) -- OOM allows this, and then what follows
  else
    redis.call('DEL', BELL)
    write_pointers(false, FIRST or 0, LAST or -1, CAP or 0, true, JOIN_NOW, SHARDS or new_prefix())
    redis.call('PEXPIRE', META, IDLE_MS)
  end
  save_record('')
  return { 0 }
end
if FAST and not SHARDS and WATCHES and HOW ~= 'woken' then
  local left, shards = ARGV[4] == 'L', new_prefix()
  if plain_found(shards, 0, 0) > COUNT then
    redis.call('RENAME', PLAIN, shards .. 0)
    local values = redis.call(left and 'LPOP' or 'RPOP', shards .. 0, COUNT)
    write_pointers(false, 0, 0, TAKEN_CAPACITY, false, popped_at(left), shards)
    save_popped('', { values }, #values)
    return { 2, values }
  end
end
