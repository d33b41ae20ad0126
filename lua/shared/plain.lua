-- The key of the list's name: a plain list in place of an empty or a restored one, and newcomers beside one with elements.
--
-- requires: shared/join shared/server shared/moving shared/save shared/known

local UNLIMITED = 2 ^ 53 -- the capacity of a shard that is a plain key

local TAKES_OVER, TAKES_IN -- whether the script requires shared/take_over.lua and shared/take_in.lua, which define these:
local take_in, wake_restored

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
  local stem = string.sub(key, -5) == ':bell' and string.match(key, '^(.*{.+}.*):bell$')
  return stem and type(redis.pcall('HGET', stem .. ':meta', 'layout')) == 'string' and stem .. ':meta' or nil
end

-- with_plain makes the list and its plain key one list. It returns the list, or nil and the error. no_plain tells whether it is
-- known that there is no plain key. The other arguments are those of open.
local with_plain
do
  -- error_at returns the error to reply with, if the plain key holds another type, or may be on another node.
  local function error_at(seen, how, any)
    if string.find(seen.err, 'WRONGTYPE', 1, true) then
      return not any and how ~= 'waiting' and seen or nil
    end
    return not (any and BY_PLAIN) and seen or nil -- with that, the caller has come where the plain key is, or would be
  end

  -- find_in_place makes the list at the plain key of a restored list the only shard. It returns the error to reply with.
  local function find_in_place(list, how, any)
    local size = redis.pcall('LLEN', list.restored)
    local seen = size == 0 and redis.pcall('EXISTS', META, list.restored) or size
    if type(seen) == 'table' then
      return error_at(seen, how, any)
    end
    list.shards, list.first, list.last, list.cap = prefix_of(list.restored), 0, math.min(size, 1) - 1, UNLIMITED
    if list.armed and size > 0 and how ~= 'reading' and TAKES_OVER then
      return how == 'growing' and no_memory() or wake_restored(list)
    end
  end

  -- be_short makes the plain key the only shard of a list whose pointers are empty or absent: the list is what the key holds.
  -- In the state, short is what meta has, if there is one.
  local function be_short(list, size, how)
    list.short = { cap = list.cap, shards = list.shards, grows = how == 'growing' }
    list.restored = PLAIN
    list.shards, list.last, list.cap = prefix_of(PLAIN), list.first + math.min(size, 1) - 1, UNLIMITED
    if list.armed and size > 0 and how ~= 'reading' and TAKES_OVER then -- a process has pushed that does not ring
      return how == 'growing' and no_memory() or wake_restored(list)
    end
  end

  function with_plain(list, how, any, says, no_plain)
    local problem
    if list.restored then
      problem = find_in_place(list, how, any)
    elseif PLAIN and not no_plain then
      local empty, owner = list.first > list.last, rung_by(PLAIN)
      local size = owner and 0 or redis.pcall('LLEN', PLAIN)
      -- It is known that meta and the key are here, or at worst there are newcomers elsewhere.
      local known = not empty or type(size) ~= 'number' or OTHERS or BY_PLAIN and size > 0
      local seen = known and size or redis.pcall('EXISTS', META, PLAIN)
      if empty and type(seen) == 'table' then -- another type, or the node has yet to receive one of them
        problem = error_at(seen, how, any)
      elseif empty and not owner then
        problem = be_short(list, size, how)
      elseif not empty and TAKES_IN and type(size) == 'number' and size > 0 and (how ~= 'reading' or may_write()) then
        local join = list.join > 0 and list.join or says or pushed_at(false)
        problem = how == 'growing' and no_memory() or take_in(list, PLAIN, size, join)
      end
    end
    if no_plain and PLAIN and not list.restored and list.first > list.last then
      problem = be_short(list, 0, how)
    end
    if not list.restored and not problem then
      save_join(list, how, says)
    end
    if problem then
      return nil, problem
    end
    return list
  end
end

-- In each call:

TAKES_OVER, TAKES_IN = false, false
