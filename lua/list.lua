-- What every operation shares. This file is put in front of each script.
--
-- A list is a small hash, meta, and the shards it points to. Meta's fields:
--   layout       the version of this layout; a script refuses one it does not know
--   first, last  the ids of the end shards; first = last + 1 says the list is empty
--   cap          elements in a full shard, fixed while the list is not empty
--   armed        '1' when somebody waits on the bell; only ever set on an empty list
--   lo, hi       ids that a Del or LTrim left to unlink, those of live shards excepted
--   expires      when the list expires, in Unix milliseconds; such a list also has, or is about to have:
--   ttl          when each shard expires, well after the list
--   walk         the id of the next shard to give that to, or to take its own from if there is no ttl; gone when all are done
--
-- Redis would not remove all keys of a list at one moment. So a list has expired when its time is over, and the keys' own
-- lives only see to it that nothing stays if nobody comes again. While the list lives, each shard's life is without end, or
-- ends well after the list; meta's ends after that of all others.
--
-- KEYS[1] is meta. KEYS[2], where there is one, is a key that must hold nothing while the list is in use: the one that the
-- list stands in for. The other keys share meta's hash tag, so on a cluster they are on the same node, unless their slot
-- is moving: then a key may be away, and Redis answers an access to it with an error or, on the node that is
-- receiving the slot, takes it for absent. Redis does not roll a script back. Hence the rule of all these scripts:
-- read every key that will be written, and find every shard that must exist, before the first write.
--
-- Over maxmemory Redis refuses commands that may grow the data set (HSET, RPUSH), though only until a script has
-- written. Hence the second rule: what must work then (pops, Del) writes first with a command that never grows.

local META = KEYS[1]
local PREFIX = string.sub(META, 1, -5) -- without 'meta'
local BELL = PREFIX .. 'bell'
local PLAIN = KEYS[2]
local LAYOUT = '1'
local IDLE_MS = 30000 -- how long the keys of an empty list may stay
local SWEEP_STEP = 100 -- shards that an operation unlinks for an unfinished Del
local UNPACK_MAX = 1000 -- values that Lua may unpack or join at once
local PIECE = 16384 -- bytes pushed by one command, about: copies of more would not stay in the processor's cache

-- plain_problem is the error to reply with if the key that the list stands in for holds something.
local function plain_problem()
  local size = redis.pcall('LLEN', PLAIN)
  if type(size) == 'table' then
    return size
  end
  if size > 0 then
    return redis.error_reply('PLAINLIST the key holds a plain list')
  end
end

-- clock is the server's time in Unix milliseconds.
local function clock()
  local now = redis.call('TIME')
  return tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
end

-- leave adds the ids of shards that the pointers leave to those that are to be swept. The caller writes them.
local function leave(list, from, to)
  list.lo = math.min(list.lo or from, from)
  list.hi = math.max(list.hi or to, to)
end

-- abandon makes the state that of an empty list, whose shards are left to sweep. The caller writes it.
local function abandon(list)
  leave(list, list.first, list.last)
  list.first, list.last = list.hi + 1, list.hi
  list.expires = nil
end

-- bury makes an expired list an empty one. That changes nothing of what anybody sees, so it may be done before all else. What
-- grows the list writes first what a full server refuses, anything else what it lets pass, and what only reads nothing.
local function bury(list, how)
  abandon(list)
  if how == 'reading' then
    return
  end
  if how ~= 'growing' then
    redis.call('HDEL', META, 'cap')
  end
  redis.call('HSET', META, 'first', list.first, 'last', list.last, 'lo', list.lo, 'hi', list.hi)
  redis.call('HDEL', META, 'cap', 'expires', 'ttl', 'walk')
end

-- open reads meta. It returns the list's state, or nil and the error to reply with. A list that does not exist is empty, and so
-- is one that has expired. how is 'reading' if the script writes nothing, 'growing' if a full server is to refuse it, else nil.
local function open(how)
  local m = redis.call('HMGET', META, 'layout', 'first', 'last', 'cap', 'armed', 'lo', 'hi', 'expires')
  local first, last = tonumber(m[2]), tonumber(m[3])
  if m[1] == LAYOUT and first and last then
    local cap = tonumber(m[4]) or 0
    if cap < 1 and first <= last then
      return nil, redis.error_reply('BROKENLIST meta has the capacity ' .. cap)
    end
    local list = { first = first, last = last, cap = cap, armed = m[5] == '1', lo = tonumber(m[6]), hi = tonumber(m[7]) }
    if m[8] then
      list.expires, list.now = tonumber(m[8]), clock()
      if list.now > list.expires then
        bury(list, how)
      end
    end
    local problem = PLAIN and list.first > list.last and plain_problem()
    if problem then
      return nil, problem
    end
    return list
  end
  if m[1] == LAYOUT then
    return nil, redis.error_reply('BROKENLIST meta has no pointers')
  end
  if m[1] then
    return nil, redis.error_reply('BADLAYOUT meta is of another layout than ' .. LAYOUT)
  end
  if redis.call('EXISTS', META) == 1 then
    return nil, redis.error_reply('BADLAYOUT meta is a hash that belongs to no list')
  end
  local problem = PLAIN and plain_problem()
  if problem then
    return nil, problem
  end
  return { first = 0, last = -1, armed = false }
end

local function is_empty(list)
  return list.first > list.last
end

-- is_moving tells whether a pcall failed because a key may be on another node. Any other failure it raises.
local function is_moving(reply)
  if type(reply) ~= 'table' then
    return false
  end
  if string.find(reply.err, 'non local key', 1, true) or string.find(reply.err, 'TRYAGAIN', 1, true) then
    return true
  end
  error(reply.err, 0)
end

-- missing is the error for a shard that the pointers promise and that is not there: on its way between two nodes, which
-- an access together with another key tells, or gone.
local function missing(id)
  if is_moving(redis.pcall('EXISTS', META, PREFIX .. id)) then
    return redis.error_reply('TRYAGAIN shard ' .. id .. ' is moving to another node')
  end
  return redis.error_reply('BROKENLIST shard ' .. id .. ' is missing')
end

-- measure returns how many elements the first shard, the last shard and the list hold, or nil and the error.
local function measure(list)
  if is_empty(list) then
    return 0, 0, 0
  end
  local head = redis.call('LLEN', PREFIX .. list.first)
  if head == 0 then
    return nil, missing(list.first)
  end
  if list.first == list.last then
    return head, head, head
  end
  local tail = redis.call('LLEN', PREFIX .. list.last)
  if tail == 0 then
    return nil, missing(list.last)
  end
  return head, tail, head + tail + (list.last - list.first - 1) * list.cap
end

-- locate returns the id of the shard that holds an index, and the index within it, if the first shard holds head elements.
local function locate(list, head, index)
  if index < head then
    return list.first, index
  end
  return list.first + 1 + math.floor((index - head) / list.cap), (index - head) % list.cap
end

-- beneath returns how many elements of a deleted list stand where a shard is to be made, or nil and the error if they may
-- be on another node.
local function beneath(list, id)
  local stale = redis.call('LLEN', PREFIX .. id)
  if list.lo and is_moving(redis.pcall('EXISTS', META, PREFIX .. id)) then
    return nil, missing(id)
  end
  return stale
end

-- uncover cuts off stale elements, once others have been pushed to the left of them or to the right. They are not unlinked
-- before: a key that goes while its slot is moving cannot come back.
local function uncover(id, stale, left)
  if stale > 0 then
    redis.call('LTRIM', PREFIX .. id, left and 0 or stale, left and -1 - stale or -1)
  end
end

-- lease is when a shard that is made now expires, or false. It is read before the first write.
local function lease(list)
  return list.expires and redis.call('HGET', META, 'ttl')
end

-- keep gives a shard that life.
local function keep(id, ends)
  if ends then
    redis.call('PEXPIREAT', PREFIX .. id, ends)
  else
    redis.call('PERSIST', PREFIX .. id)
  end
end

-- adopt makes a shard one of the list, once elements have been pushed to where stale ones may be: it is rid of those, and
-- has the life of a new shard, not theirs.
local function adopt(id, stale, left, ends)
  uncover(id, stale, left)
  if ends or stale > 0 then
    keep(id, ends)
  end
end

-- bell_at_hand tells, before the first write, whether the bell can be rung. While the slot is moving, a bell that is not
-- here may be on the other node, and one made here would stop the move. Nobody can begin to wait then, BLPOP fails as well;
-- who waits already hears of it when the slot has moved, or when its slice ends.
local function bell_at_hand()
  if is_moving(redis.pcall('EXISTS', META, BELL)) then
    return false
  end
  redis.call('LLEN', BELL) -- an error if it is no list
  return true
end

-- push_values pushes values[from] to values[to], one after the other.
local function push_values(PUSH, key, values, from, to)
  while from <= to do
    local size = math.min(UNPACK_MAX, to - from + 1, 1 + math.floor(PIECE / (#values[from] + 1)))
    redis.call(PUSH, key, unpack(values, from, from + size - 1))
    from = from + size
  end
end

-- is_released tells whether a consumer that has been woken is to take nothing: by its release key, if it has one.
local function is_released(key)
  local seen = key == '' and 0 or redis.pcall('EXISTS', key)
  return not is_moving(seen) and seen == 1
end

-- ring puts one dummy into the bell, where there is never more than one. The bell is at hand, and the caller has written.
local function ring()
  if redis.call('RPUSH', BELL, '1') > 1 then
    redis.call('LPOP', BELL)
  end
  redis.call('PEXPIRE', BELL, IDLE_MS)
end

-- arm asks the next push into the empty list to ring, and drops old dummies. The bell is at hand.
local function arm(list)
  redis.call('DEL', BELL)
  redis.call('HSET', META, 'layout', LAYOUT, 'first', list.first, 'last', list.last, 'armed', 1)
  if not list.lo then
    redis.call('PEXPIRE', META, IDLE_MS)
  end
end

-- vacate notes that the list has lost its last element; what is empty does not expire. The pointers go past whatever a Del
-- left, so that new shards keep clear of it. Meta is deleted, unless the caller needs it.
local function vacate(list, needed)
  list.first = list.hi and list.hi + 1 or 0
  list.last = list.first - 1
  list.armed = false
  if not list.lo and not needed then
    redis.call('DEL', META)
  elseif list.expires then
    redis.call('HDEL', META, 'expires', 'ttl', 'walk')
  end
  list.expires = nil
  if list.lo then
    redis.call('HSET', META, 'first', list.first, 'last', list.last)
  end
end

-- sweep unlinks up to SWEEP_STEP shards that a Del or LTrim left, none of them live, and keeps account of it in meta. Where the
-- slot is moving it stops: a shard that is away must not be taken for swept.
local function sweep(list)
  if not list.lo then
    return
  end
  local id, stop = list.lo, list.lo + SWEEP_STEP
  while id <= list.hi and id < stop do
    if id >= list.first and id <= list.last then
      stop = stop + list.last + 1 - id
      id = list.last + 1
    else
      local seen = redis.pcall('EXISTS', META, PREFIX .. id)
      if type(seen) == 'table' then
        break
      end
      if seen == 2 then
        redis.call('UNLINK', PREFIX .. id)
      end
      id = id + 1
    end
  end
  if id == list.lo then
    return
  end
  if id <= list.hi then
    list.lo = id
    redis.call('HDEL', META, 'lo') -- a full server lets this pass, and so what follows
    redis.call('HSET', META, 'lo', id)
    return
  end
  list.lo, list.hi = nil, nil
  if not is_empty(list) then
    redis.call('HDEL', META, 'lo', 'hi')
  elseif list.armed then
    redis.call('HDEL', META, 'lo', 'hi')
    redis.call('PEXPIRE', META, IDLE_MS)
  else
    redis.call('DEL', META)
  end
end

-- discard deletes a list that has elements. It writes first what a full server lets pass.
local function discard(list)
  -- An error if they are no lists, or not here. That one is missing is no reason to keep the rest.
  redis.call('LLEN', PREFIX .. list.first)
  redis.call('LLEN', PREFIX .. list.last)
  bury(list)
  sweep(list)
end
