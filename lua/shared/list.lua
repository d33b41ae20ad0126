-- The state of a list, and the errors for shards that are not there. Every script on a list requires this file.
--
-- A list is a small hash, meta, and the shards that it points to. Meta has these fields:
--   layout       the pointers, see shared/pointers.lua
--   stale        the ranges of shards that DEL, LTRIM or RENAME left to unlink; live shards in them stay
--   expires      the Unix time in milliseconds at which the list expires; such a list also has, or is about to have:
--   ttl          the time at which each shard expires, well after the list
--   walk         the TTL cursor: the id of the next shard to get this ttl, or to lose its TTL if there is no ttl; absent when
--                all shards are done
--   op:@<id>     the dedup record of a session that keeps it here, see shared/session.lua; and with such records:
--   records      the Unix time in milliseconds until which one of them may be needed: meta stays, even if the list is empty
--
--   caps         what the capacities of shards are, see shared/capacities.lua
--   restores     1 while commands/restore.lua turns the list into a plain one; or the time until which commands/rename.lua is
--                making its shards one
--   searches     searches in steps, see shared/searches.lua
--   part         the id of a shard between the ends that may have fewer elements than the capacity, since a step has moved only
--                some: the neighbour of one end shard
--
-- Most lists have the first field only.
--
-- The prefix of the shards' keys is made once for each list that is created, and stays. So RENAME renames meta alone, and the
-- keys of the shards keep the name under which the list was created.
--
-- Redis does not expire all keys of a list at the same moment. So the field expires alone decides whether the list has
-- expired. The TTLs of the keys only free the memory of a list that nobody uses again. While the list lives, a shard has no
-- TTL or one that ends well after the list, and meta outlives all shards.
--
-- Redis does not roll a script back. Hence the first rule of all scripts: read every key that will be written, and find every
-- shard that must exist, before the first write.
--
-- Over maxmemory, Redis refuses commands that may grow the data set (HSET, RPUSH) until the script has written. Hence the
-- second rule: a script that must work then, such as a pop or a delete, writes first with a command that never grows.
--
-- requires: shared/known shared/aside shared/server shared/moving shared/stale shared/expired shared/plain shared/capacities

local RECORD_MS -- how long the record that this script saves in the meta at KEYS[1] lives; shared/session.lua sets it

-- no_list returns the state of a list that does not exist. identify names its shards.
local function no_list()
  return { first = 0, last = -1, cap = 0, armed = false, join = 0, shards = false }
end

local function is_empty(list)
  return list.first > list.last
end

-- shard_length returns the number of elements in a shard that must exist, or nil and the error.
local function shard_length(list, id)
  local size = redis.call('LLEN', list.shards .. id)
  if size == 0 then
    return nil, missing(list, id)
  end
  return size
end

-- open reads meta. It returns the state of the list, or nil and the error to reply with. A list that does not exist or has
-- expired is empty. In the state, stale are the ranges of stale shards, if there are any, and own is the one of them whose
-- keys have the list's own prefix; the others are of lists that this one has replaced. how is 'reading' for a script that
-- writes nothing but newcomers that it takes in, 'growing' for one that OOM must refuse, 'waiting' for a consumer that has
-- begun to wait, to which a plain key of another type is no error any more, as in Redis; else nil. any says that this is for
-- a command on keys of any type: whatever else the plain key holds, and where it may be on another node, the caller serves
-- it. says is the end that newcomers join after the operation, if it tells, as pushed_at and popped_at have it.
local open
do
  -- read_records finds out until when dedup records in meta are needed: by its field, and the record that this script is going
  -- to save. Old ones are left to a sweep.
  local function read_records(list, records)
    local saves = RECORD_MS and META == KEYS[1]
    if records or saves then
      local now = clock()
      list.old_records = records and tonumber(records) < now
      list.records = math.max(saves and now + RECORD_MS or 0, tonumber(records) or 0)
      list.records = list.records >= now and list.records or nil
    end
  end

  -- read_pointers returns the state that the field layout holds, or nil if it is broken, and whether there may be other
  -- fields.
  local function read_pointers(layout)
    local more, first, last, cap, digit, shards = string.match(layout, POINTERS)
    if not more then
      return nil
    end
    local armed, join = digit % 2 == 1, math.floor(digit / 2)
    if string.byte(shards, -1) == EQUALS then
      return { first = 0, last = -1, cap = 0, armed = armed, join = join, restored = string.sub(shards, 2, -2) }, more == '+'
    end
    if shards ~= '' and string.byte(shards, -1) ~= COLON then
      shards = PREFIX .. shards .. ':'
    end
    return {
      first = tonumber(first), last = tonumber(last), cap = tonumber(cap), armed = armed, join = join, shards = shards,
    }, more == '+'
  end

  -- read_layout returns what read_pointers does, or nil and the error to reply with.
  local function read_layout(layout)
    local list, more = read_pointers(layout)
    if not list then
      if string.find(layout, '^4 %d+ %d+ %d+ %S+ %S+ %d+ %d+ %S+ %S+ %d+ %d$') then -- see shared/spread_pointers.lua
        return nil, redis.error_reply('SPREADLIST this operation cannot be done on a list that is spread over many slots')
      elseif string.find(layout, '^' .. LAYOUT .. '%+? ') then
        return nil, redis.error_reply('BROKENLIST meta has no pointers')
      end
      return nil, redis.error_reply('BADLAYOUT meta is of another layout than ' .. LAYOUT)
    end
    if list.cap < 1 and list.first <= list.last then
      return nil, redis.error_reply('BROKENLIST meta has the capacity ' .. list.cap)
    end
    if list.shards == '' then -- as in a meta that was made to hold records
      list.shards, list.only_records = false, true
    end
    return list, more
  end

  -- read_steps reads the field caps.
  local function read_steps(list, text)
    list.saved_steps = text
    if text and list.first <= list.last then
      list.begun, list.steps = tonumber(string.match(text, '^%d+')), {}
      for id, cap in string.gmatch(text, '(%-?%d+):(%d+)') do
        table.insert(list.steps, { id = tonumber(id), cap = tonumber(cap) })
      end
    end
  end

  -- read_more reads the other fields of meta. It returns the time at which the list expires, or nil.
  local function read_more(list)
    local m = redis.call('HMGET', META, 'stale', 'expires', 'records', 'walk', 'restores', 'part', 'ttl', 'caps', 'searches')
    read_records(list, m[3])
    read_stale(list, m[1])
    list.more, list.restores, list.ttl = m[4], m[5] == '1' and m[5], m[7]
    list.part = tonumber(m[6] or nil)
    list.saved_part = list.part
    read_steps(list, m[8])
    list.searches = m[9] or nil
    list.gathers = m[5] and m[5] ~= '1' and tonumber(m[5]) > clock()
    return tonumber(m[2] or nil)
  end

  function open(how, any, says)
    if BESIDE == '.' then
      return with_plain(no_list(), how, any, says)
    end
    local first = WAS_READ and META == KEYS[1] and type(WRITTEN) ~= 'table' -- nothing has changed since
    WAS_READ, OTHERS = false, first and OTHERS or nil
    local layout
    if first then
      layout = WRITTEN
    else
      layout = redis[BY_PLAIN and 'pcall' or 'call']('HGET', META, 'layout')
      layout = not (BY_PLAIN and is_moving(layout)) and layout
    end
    if not layout and first and NOTHING then
      return with_plain(no_list(), how, any, says, true)
    elseif not layout then
      if not BY_PLAIN and redis.call('EXISTS', META) == 1 then
        return nil, redis.error_reply('BADLAYOUT meta is a hash that belongs to no list')
      end
      if how == 'growing' and not PLAIN and is_away(PREFIX .. 'never') then -- else take_from_plain asks
        return nil, redis.error_reply('TRYAGAIN meta may be moving to another node')
      end
      return with_plain(no_list(), how, any, says)
    end
    local aside = read_aside(layout)
    if aside and redis.call('LLEN', aside.key) == 0 then
      return nil, missing(aside, aside.left and aside.first or aside.last)
    end
    local list, more = read_layout(aside and put_back(aside) or layout)
    if not list then
      return nil, more
    end
    list.has_meta = true
    if more then
      list.expires = read_more(list)
    elseif RECORD_MS then
      read_records(list, false)
    end
    if list.expires then
      list.now = clock()
      if list.now > list.expires then
        empty_expired(list, how)
      end
    end
    return with_plain(list, how, any, says, first and NO_PLAIN)
  end
end

-- In each call:

RECORD_MS = nil
