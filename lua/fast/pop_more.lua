-- Pops elements for any caller, from a shard that has more or from a list of one shard or from a plain list, or finds the list
-- empty. KEYS and ARGV are those of commands/pop.lua.
--
-- requires: fast/pop_woken fast/empty shared/join shared/popped

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

FAST = FAST and not EXPIRES and not (SHORT and ARMED) and COUNT > 0 and COUNT < UNPACK_MAX
JOIN_NOW = SHORT and JOIN or join_after(JOIN, popped_at(ARGV[4] == 'L'))
if FAST and POPPED and (COUNT > 1 or WAS_LARGE or LEAVES) then
  FAST = is_here(POPPED)
  POPPED_IS_HERE = FAST
end
REFUSED = false
if FAST and HOW ~= 'no' then
  FAST = is_here(BELL) and (HOW ~= 'woken' or ARGV[7] == '' or redis.pcall('EXISTS', ARGV[7]) == 0)
end
local size = FAST and (HAS_ELEMENTS or SHORT) and redis.pcall('LLEN', NEAR)
if type(size) == 'number' and size > 0 then
  local left, near = LEFT, NEAR
  local waits = size < COUNT and HOW ~= 'no' and HOW ~= 'woken'
  local is_last = size <= COUNT and (SHORT or SPAN == 0)
  local stays = SHORT or JOIN > 2 and (SPAN > 0 or size - COUNT > CAP / 2) -- with more elements, and as it is
  local more = size < COUNT and ARGV[7] == 'part'
  local is_whole = not SHORT and (more or size == COUNT) and SPAN > 1 and HOW == 'no' and JOIN_NOW == JOIN
  local gone = is_whole and LEAVES and POPPED and leave(near, left, size)
  if gone then
    write_pointers(false, left and FIRST + 1 or FIRST, left and LAST or LAST - 1, CAP, false, JOIN, SHARDS)
    redis.call('PEXPIRE', POPPED, LIFE)
    save_record(more and 'MORE@' or '@')
    return { more and 5 or 3, gone }
  end
  if size > COUNT and stays or is_last and not waits then
    local number = LEAVES and POPPED and not REFUSED and leave(near, left, size)
    local values = not number and redis.call(left and 'LPOP' or 'RPOP', near, COUNT)
    if HOW == 'woken' and size > COUNT then
      ring()
    elseif HOW == 'woken' then
      redis.call('DEL', BELL)
      write_pointers(false, 0, -1, CAP or 0, true, JOIN_NOW, SHARDS or '')
      redis.call('PEXPIRE', META, IDLE_MS)
    elseif size <= COUNT and not SHORT then
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
    write_pointers(false, FIRST or 0, LAST or -1, CAP or 0, true, JOIN_NOW, SHARDS or '')
    redis.call('PEXPIRE', META, IDLE_MS)
  end
  save_record('')
  return { 0 }
end
