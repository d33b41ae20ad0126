-- The key of the list's name: a plain list in place of an empty or a restored one, and newcomers beside one with elements.
--
-- requires: shared/join shared/server shared/moving shared/save

local UNLIMITED = 2 ^ 53 -- the capacity of a shard that is a plain key

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
  local stem = string.sub(key, -5) == ':bell' and string.match(key, '^(.*{.+}.*):bell$')
  return stem and type(redis.pcall('HGET', stem .. ':meta', 'layout')) == 'string' and stem .. ':meta' or nil
end

-- with_plain makes the list and its plain key one list. It returns the list, or nil and the error. no_plain tells whether it is
-- known that there is no plain key. The other arguments are those of open.
local function with_plain(list, how, any, says, no_plain)
  local problem
  if list.restored then
    problem = find_in_place(list, how, any)
  elseif PLAIN and not no_plain and (WATCHES or list.first > list.last) then
    local size = rung_by(PLAIN) and 0 or redis.pcall('LLEN', PLAIN)
    if list.first > list.last and type(size) == 'number' then
      problem = take_from_plain(list, size, how, any, says)
    elseif list.first > list.last then
      problem = STANDS_IN and not any and not (how == 'waiting' and string.find(size.err, 'WRONGTYPE', 1, true)) and size or nil
    elseif TAKES_IN and type(size) == 'number' and size > 0 and (how ~= 'reading' or may_write()) then
      local join = list.join > 0 and list.join or says or pushed_at(false)
      problem = how == 'growing' and no_memory() or take_in(list, PLAIN, size, join)
    end
  end
  if WATCHES and not list.restored and not problem then
    save_join(list, how, says)
  end
  if problem then
    return nil, problem
  end
  return list
end

-- In each call:

TAKES_OVER, TAKES_IN = false, false
