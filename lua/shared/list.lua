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
--   restores     1 while commands/restore.lua turns the list into a plain one; or the time until which commands/transfer.lua is
--                making its shards one
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
-- requires: shared/write_pointers shared/join shared/aside

local UNLIMITED = 2 ^ 53 -- the capacity of a shard that is a plain key
local RECORD_MS -- how long the record that this script saves in the meta at KEYS[1] lives; shared/session.lua sets it

local TAKES_OVER, TAKES_IN -- whether the script requires shared/take_over.lua and shared/take_in.lua, which define these:
local take_over, take_in, wake_restored

local prefix_of -- the prefix of the shards of a list whose only shard is a plain key: whatever the id, it is that key
do
  local concat = {
    __concat = function(prefix)
      return prefix.key
    end,
  }
  function prefix_of(key)
    return setmetatable({ key = key }, concat)
  end
end

-- no_memory returns the server's error if its memory is full. RPUSHX of a key that is never there asks, and changes nothing.
local function no_memory()
  local reply = redis.pcall('RPUSHX', PREFIX .. 'never', '')
  return type(reply) == 'table' and string.find(reply.err, 'OOM', 1, true) and reply or nil
end

-- clock returns the server's Unix time in milliseconds.
local function clock()
  local now = redis.call('TIME')
  return tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
end

-- stale_text returns the field stale: '<lo> <hi> <length of the prefix> <prefix>' for each range.
local function stale_text(list)
  local words = {}
  for i, range in ipairs(list.stale) do
    words[i] = range.lo .. ' ' .. range.hi .. ' ' .. #range.shards .. ' ' .. range.shards
  end
  return table.concat(words)
end

-- queue_sweep adds ids to the shards to unlink. The caller saves the list.
local function queue_sweep(list, from, to)
  if not list.own then
    list.own = { lo = from, hi = to, shards = list.shards }
    list.stale = list.stale or {}
    table.insert(list.stale, list.own)
  end
  list.own.lo, list.own.hi = math.min(list.own.lo, from), math.max(list.own.hi, to)
end

-- detach turns the state into that of an empty list and queues all shards for a sweep. The caller saves it.
local function detach(list)
  if list.restored then
    redis.call('UNLINK', list.restored)
    list.last = list.first - 1
    return
  end
  queue_sweep(list, list.first, list.last)
  list.first, list.last = list.own.hi + 1, list.own.hi
  list.expires, list.join = nil, 0
end

-- save_part writes the part, unless it is an end by now, or no more in the list.
local function save_part(list)
  list.part = list.part and list.first < list.part and list.part < list.last and list.part or nil
  if list.part and list.part ~= list.saved_part then
    redis.call('HSET', META, 'part', list.part)
  elseif list.saved_part and not list.part then
    redis.call('HDEL', META, 'part')
  end
  list.saved_part = list.part
end

-- save_list writes the state of the list, but not what only commands/expire.lua and commands/transfer.lua write: they set more,
-- so that others look for it.
local function save_list(list)
  local more = list.stale or list.expires or list.records or list.old_records or list.more or list.restores or list.gathers
    or list.part or list.saved_part
  if list.restored then
    write_pointers(more, 0, -1, 0, list.armed, list.join, '=' .. list.restored .. '=')
  else
    write_pointers(more, list.first, list.last, list.cap, list.armed, list.join, list.shards or '')
  end
  if list.stale then
    redis.call('HSET', META, 'stale', stale_text(list))
  end
  save_part(list)
end

-- no_list returns the state of a list that does not exist. identify names its shards.
local function no_list()
  return { first = 0, last = -1, cap = 0, armed = false, join = 0, shards = false }
end

-- read_records finds out until when dedup records in meta are needed: by its field, and the record that this script is going to
-- save. Old ones are left to a sweep.
local function read_records(list, records)
  local saves = RECORD_MS and META == KEYS[1]
  if records or saves then
    local now = clock()
    list.old_records = records and tonumber(records) < now
    list.records = math.max(saves and now + RECORD_MS or 0, tonumber(records) or 0)
    list.records = list.records >= now and list.records or nil
  end
end

-- expire_idle lets the meta of an empty list expire, not before the records in it. That of a restored one stays.
local function expire_idle(list)
  if list.restored or list.restores then
    return
  end
  redis.call('PEXPIRE', META, list.records and math.max(IDLE_MS, list.records - clock()) or IDLE_MS)
end

-- empty_expired makes an expired list an empty one. No client can tell the difference, so this may come before anything else.
-- how is as for open: a growing script starts with a command that OOM refuses, others with one that it allows.
local function empty_expired(list, how)
  detach(list)
  if how == 'reading' then
    return
  end
  if how ~= 'growing' then
    redis.call('HDEL', META, 'expires')
  end
  list.more = nil
  save_list(list)
  redis.call('HDEL', META, 'expires', 'ttl', 'walk')
end

-- read_pointers returns the state that the field layout holds, or nil if it is broken, and whether there may be other fields.
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

-- read_stale reads the ranges of stale shards.
local function read_stale(list, text)
  while text and text ~= '' do
    local lo, hi, length, rest = string.match(text, '^(%S+) (%S+) (%d+) (.*)$')
    local range = { lo = tonumber(lo), hi = tonumber(hi), shards = string.sub(rest, 1, tonumber(length)) }
    list.stale = list.stale or {}
    table.insert(list.stale, range)
    list.own = range.shards == list.shards and range or list.own
    text = string.sub(rest, length + 1)
  end
end

-- find_in_place makes the list at the plain key of a restored list the only shard. It returns the error to reply with.
local function find_in_place(list, how, any)
  local size = redis.pcall('LLEN', list.restored)
  local seen = size == 0 and redis.pcall('EXISTS', META, list.restored) or size
  if type(seen) == 'table' then
    return not any and not (how == 'waiting' and string.find(seen.err, 'WRONGTYPE', 1, true)) and seen or nil
  end
  list.shards, list.first, list.last, list.cap = prefix_of(list.restored), 0, math.min(size, 1) - 1, UNLIMITED
  if list.armed and size > 0 and how ~= 'reading' and TAKES_OVER then
    return how == 'growing' and no_memory() or wake_restored(list)
  end
end

-- take_from_plain deals with a plain list beside an empty list. It returns the error to reply with if the list cannot be used.
local function take_from_plain(list, size, how, any, says)
  if not WATCHES and size > 0 then
    return not (any and STANDS_IN) and redis.error_reply('PLAINLIST ' .. PLAIN) or nil
  elseif not STANDS_IN then
    return nil
  end
  local seen = redis.pcall('EXISTS', META, PLAIN) -- an error if the node has yet to receive one of them
  local problem
  if type(seen) == 'table' then
    problem = seen
  elseif size > 0 and how == 'reading' then
    list.shards, list.last, list.cap = prefix_of(PLAIN), list.first, UNLIMITED
  elseif size > 0 then
    problem = how == 'growing' and no_memory() or take_over(list, PLAIN, nil, says)
  end
  return not any and problem or nil
end

-- save_join saves what an operation says of the end that newcomers join.
local function save_join(list, how, says)
  local join = join_after(list.join, says)
  if join ~= list.join then
    list.join = join
    if list.first <= list.last then
      if how ~= 'growing' then
        redis.call('HDEL', META, 'armed') -- changes nothing, and OOM allows it
      end
      save_list(list)
    end
  end
end

-- rung_by returns the meta of the list whose bell a plain key is, if there is such a list.
local function rung_by(key)
  local stem = string.match(key, '^(.*{.+}.*):bell$')
  return stem and type(redis.pcall('HGET', stem .. ':meta', 'layout')) == 'string' and stem .. ':meta' or nil
end

-- may_write tells whether the server takes writes, and is no replica. The command changes nothing, and OOM allows it.
local function may_write()
  return type(redis.pcall('HDEL', META, 'armed')) == 'number'
end

-- with_plain makes the list and its plain key one list. It returns the list, or nil and the error. The other arguments are
-- those of open.
local function with_plain(list, how, any, says)
  local problem
  if list.restored then
    problem = find_in_place(list, how, any)
  elseif PLAIN and (WATCHES or list.first > list.last) then
    local size = rung_by(PLAIN) and 0 or redis.pcall('LLEN', PLAIN)
    if list.first > list.last and type(size) == 'number' then
      problem = take_from_plain(list, size, how, any, says)
    elseif list.first > list.last then
      problem = STANDS_IN and not any and not (how == 'waiting' and string.find(size.err, 'WRONGTYPE', 1, true)) and size or nil
    elseif TAKES_IN and type(size) == 'number' and size > 0 and (how ~= 'reading' or may_write()) then
      local join = list.join > 0 and list.join or says or pushed_at(false)
      problem = how == 'growing' and no_memory() or take_in(list, PLAIN, size, join)
    end
    if WATCHES and not problem then
      save_join(list, how, says)
    end
  end
  if problem then
    return nil, problem
  end
  return list
end

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
  return redis.error_reply('BROKENLIST shard ' .. id .. ' is missing')
end

-- open reads meta. It returns the state of the list, or nil and the error to reply with. A list that does not exist or has
-- expired is empty. In the state, stale are the ranges of stale shards, if there are any, and own is the one of them whose
-- keys have the list's own prefix; the others are of lists that this one has replaced. how is 'reading' for a script that
-- writes nothing but newcomers that it takes in, 'growing' for one that OOM must refuse, 'waiting' for a consumer that has
-- begun to wait, to which a plain key of another type is no error any more, as in Redis; else nil. any says that this is for
-- a command on keys of any type: whatever else the plain key holds, and where it may be on another node, the caller serves
-- it. says is the end that newcomers join after the operation, if it tells, as pushed_at and popped_at have it.
local function open(how, any, says)
  local layout = redis.call('HGET', META, 'layout')
  if not layout then
    if redis.call('EXISTS', META) == 1 then
      return nil, redis.error_reply('BADLAYOUT meta is a hash that belongs to no list')
    end
    if how == 'growing' and not STANDS_IN and is_away(PREFIX .. 'never') then -- else take_from_plain asks
      return nil, redis.error_reply('TRYAGAIN meta may be moving to another node')
    end
    return with_plain(no_list(), how, any, says)
  end
  local aside = read_aside(layout)
  if aside and redis.call('LLEN', aside.key) == 0 then
    return nil, missing(aside, aside.left and aside.first or aside.last)
  end
  layout = aside and put_back(aside) or layout
  if string.find(layout, '^4 %d+ %d+ %d+ %S+ %S+ %d+ %d+ %S+ %S+ %d+ %d$') then -- see shared/spread_pointers.lua
    return nil, redis.error_reply('SPREADLIST this operation cannot be done on a list that is spread over many slots')
  end
  if not string.find(layout, '^' .. LAYOUT .. '%+? ') then
    return nil, redis.error_reply('BADLAYOUT meta is of another layout than ' .. LAYOUT)
  end
  local list, more = read_pointers(layout)
  if not list then
    return nil, redis.error_reply('BROKENLIST meta has no pointers')
  end
  if list.cap < 1 and list.first <= list.last then
    return nil, redis.error_reply('BROKENLIST meta has the capacity ' .. list.cap)
  end
  if list.shards == '' then -- as in a meta that was made to hold records
    list.shards, list.only_records = false, true
  end
  local m = more and redis.call('HMGET', META, 'stale', 'expires', 'records', 'walk', 'restores', 'part') or {}
  read_records(list, m[3])
  if more then
    read_stale(list, m[1])
    list.more, list.restores = m[4], m[5] == '1' and m[5]
    list.part = tonumber(m[6] or nil)
    list.saved_part = list.part
    list.gathers = m[5] and m[5] ~= '1' and tonumber(m[5]) > clock()
  end
  if m[2] then
    list.expires, list.now = tonumber(m[2]), clock()
    if list.now > list.expires then
      empty_expired(list, how)
    end
  end
  return with_plain(list, how, any, says)
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

-- In each call:

RECORD_MS, TAKES_OVER, TAKES_IN = nil, false, false
