-- Turns a long shard into full ones.
--
-- A plain list becomes an end shard of the list by one RENAME, see shared/take_over.lua. So an end shard may be longer than the
-- capacity. Shards between the ends may not, since indices are computed. So a long shard stays at its end: what is pushed
-- there goes onto it, unless it is the only shard. It becomes shorter by pops, by commands/adopt.lua, and by pushes onto it.
--
-- A script moves MOVE_STEP elements or MOVE_BYTES at the most. A shard may hold more. So the neighbour of one end shard may be
-- the part: partly carved, or partly gathered (shared/gather.lua). shared/list.lua says how that is known.
--
-- requires: shared/list shared/shards shared/values

local MOVED, MOVED_BYTES -- what this script has moved from key to key

-- next_piece returns how many of so many elements to look at next. It grows, so that few are read that are too large to be
-- moved.
local function next_piece(from, leftwards, number)
  if AT_ONCE then
    return math.min(number, UNPACK_MAX)
  end
  local size = math.max(1, #redis.call('LINDEX', from, leftwards and -1 or 0))
  local fit = math.floor((MOVE_BYTES - MOVED_BYTES) / size)
  return math.min(number, MOVE_STEP - MOVED, 2 * MOVED + 64, MOVED > 0 and fit or math.max(1, fit))
end

-- shift_elements moves up to that many elements, which the key has, from its right end to the left end of another, or from left
-- to right: as many as the script may move, or all of them if it must do all at once. They keep their order. It returns how
-- many. Its first write is LTRIM, which OOM allows. The slot does not move.
local shift_elements
do
  -- fitting returns how many elements of a piece the script may yet move, from the last if backwards, and counts them as moved.
  -- Any element may be the first.
  local function fitting(elements, backwards)
    for i = 1, #elements do
      local bytes = MOVED_BYTES + #elements[backwards and #elements + 1 - i or i]
      if MOVED > 0 and bytes > MOVE_BYTES and not AT_ONCE then
        return i - 1
      end
      MOVED, MOVED_BYTES = MOVED + 1, bytes
    end
    return #elements
  end

  function shift_elements(from, to, leftwards, number)
    local shifted, fits, piece = 0, 0, 0
    while shifted < number and fits == piece do
      piece = next_piece(from, leftwards, number - shifted)
      if piece < 1 then
        return shifted
      end
      local elements = redis.call('LRANGE', from, leftwards and -piece or 0, leftwards and -1 or piece - 1)
      fits = fitting(elements, leftwards)
      if fits > 0 then
        redis.call('LTRIM', from, leftwards and 0 or fits, leftwards and -fits - 1 or -1)
      end
      if leftwards then
        local reversed = {}
        for i = 1, fits do
          reversed[i] = elements[piece + 1 - i]
        end
        elements = reversed
      end
      push_values(leftwards and 'LPUSH' or 'RPUSH', to, elements, 1, fits)
      shifted = shifted + fits
    end
    return shifted
  end
end

-- carve moves the inner elements of a long end shard to a full one of their own, beside it; or those of a shard beside the
-- part to that. The script has written before. It returns how many elements it has moved: none if there is nothing to do at
-- this end, if the script must not move more, or while the slot moves, which it tells too.
local function carve(list, left)
  local id, step = left and list.first or list.last, left and -1 or 1
  local cap = cap_at(list, id)
  local fills, size = beside_part(list, left), redis.call('LLEN', list.shards .. id)
  if list.part and not fills or not fills and size <= cap then
    return 0, false
  end
  local to, from = fills and list.part or id, fills and id or id + step
  local inner, outer = list.shards .. to, list.shards .. from
  if is_moving(redis.pcall('EXISTS', inner, outer, PREFIX .. 'never')) then
    return 0, true
  end
  local long = list.shards .. id
  local bytes = cap * #redis.call('LINDEX', long, left and -1 or 0)
  local fits = MOVED == 0 or MOVED + cap <= MOVE_STEP and MOVED_BYTES + bytes <= MOVE_BYTES
  if fills and next_piece(long, left, 1) < 1 or not fills and not fits then
    return 0, false -- a part is begun only if all of it can be moved, or nothing has been: fast paths leave such a list alone
  end
  local ttl = list.expires and list.ttl
  local lacks = cap
  if fills then
    lacks = cap_at(list, to) - redis.call('LLEN', inner)
  else
    redis.call('RENAME', inner, outer) -- over what may be stale there
  end
  local number = shift_elements(outer, inner, left, math.min(lacks, size))
  set_ttl(list, to, ttl)
  set_ttl(list, from, ttl) -- which the TTL cursor may have passed
  save_searches(list, left and from or to, left and to or from)
  list[left and 'first' or 'last'] = number < size and from or to
  list.part = number < lacks and to or nil
  save_list(list)
  return number, false
end

-- carve_at_times carves after a push of count elements onto a shard that had size: so often that the shard gets shorter, and so
-- seldom that a push moves eight elements in the mean. It leaves large elements and large shards to commands/adopt.lua.
local function carve_at_times(list, left, size, count)
  local id = left and list.first or list.last
  local cap = cap_at(list, id)
  if list.restores or list.gathers or cap > MOVE_STEP then
    return -- the shard is to become longer, or the push would move too much
  end
  local period = math.max(1, math.floor(cap / 8))
  if size % period + count >= period then
    local inner = redis.call('LINDEX', list.shards .. id, left and -1 or 0)
    if #inner * cap <= MOVE_BYTES then
      carve(list, left)
    end
  end
end

-- In each call:

MOVED, MOVED_BYTES = 0, 0
