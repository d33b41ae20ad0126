-- The shard at an end of a spread list.
--
-- A spread list has its shards in many slots, so no script can touch two of them, nor a shard and the pointers. A client sends
-- what it knows of the pointers. The shard finds out whether it is still the end by epochs: every change of a pointer has a
-- new one, they only grow, and a shard remembers the newest that it has seen of either side. docs/design.md, "Spread lists",
-- has the protocol, and docs/models/spread.py is it as a program.
--
-- KEYS[1], the part, is a hash. It has the state of each of its shards, in the field '<generation>.<id>':
--   <left is open><right is open><flags><side> <epoch of left> <epoch of right> <position>
-- The first three are digits. The flags are 1 if a consumer waits, plus 2 if the list was to expire when the shard was last
-- asked as an end. Side is L or R: the position is that of the border there, one which cannot move. The field mark is the
-- watermark: no shard is made again for an epoch up to it. The field expiry is what the part knows of the list's expiry, see
-- shared/spread_pointers.lua: '<generation> <Unix time in milliseconds, or 0> <stamp>'. Without shards, the part expires.
--
-- ARGV  4 'L' or 'R', the end; 5 the pointers that the client knows:
--       '<generation> <first> <last> <epoch of left> <epoch of right> <left border> <right border> <capacity>', and what it
--       knows of the expiry
--
-- That the list has expired is decided by the shards at its ends, to which every operation goes first: whoever sets an expiry
-- tells both before it returns, and pointers bring it along to others. An expired list is deleted by whoever finds it. A list
-- that becomes empty does not expire any more. That shows where all of it is in one empty shard: there the expiry is void, and
-- a pointer that leaves the shard tells meta. So a shard that gives its last element away is retired at once if there are more
-- inward and the list is to expire, and who took it looks there before it returns.
--
-- requires: shared/session shared/bell

local PART_MS = 180000 -- longer than any client acts on pointers that it has read
local NUMBER = '%-?%d+'
local STATE_FORM = '^(%d)(%d)(%d)([LR]) (%d+) (%d+) (' .. NUMBER .. ')$'

local SIDE, OTHER -- 1 for left, 2 for right
local IDS, EPOCHS, BORDERS -- of left and right
local GENERATION, CAPACITY
local EXPIRES, STAMP -- what is known of the expiry
local SHARD -- the field of its state
local ELEMENTS

-- parse_shard returns the state that a field holds, or nil if it is broken.
local function parse_shard(text)
  local left, right, armed, side, left_epoch, right_epoch, position = string.match(text, STATE_FORM)
  return left and {
    open = { left == '1', right == '1' }, armed = armed % 2 == 1, timed = armed + 0 > 1, at = side == 'L' and 1 or 2,
    epoch = { tonumber(left_epoch), tonumber(right_epoch) }, position = tonumber(position),
  }
end

-- moving_shard returns the error for a shard that may be on another node.
local function moving_shard(id)
  return redis.error_reply('TRYAGAIN shard ' .. id .. ' is moving to another node')
end

-- read_shard returns the shard that has this state, with its size; or nil and the error to reply with.
local function read_shard(id, state)
  local shard = parse_shard(state)
  if not shard then
    return nil, redis.error_reply('BROKENLIST shard ' .. id .. ' has no state')
  end
  shard.key = PREFIX .. GENERATION .. '.' .. id
  shard.size = redis.call('LLEN', shard.key)
  if shard.size == 0 and is_away(shard.key) then
    return nil, moving_shard(id)
  end
  return shard
end

-- find_shard returns any shard; or nil if there is none; or nil and the error to reply with.
local function find_shard(id)
  local state = redis.call('HGET', META, GENERATION .. '.' .. id)
  if state then
    return read_shard(id, state)
  elseif redis.call('EXISTS', META) == 0 and is_away(PREFIX .. GENERATION .. '.' .. id) then
    return nil, moving_shard(id)
  end
end

-- border returns the position of the border at a side.
local function border(shard, side)
  if shard.at == side then
    return shard.position
  end
  return shard.position + (side == 2 and shard.size or -shard.size)
end

-- shut closes a side, whose border cannot move from then on.
local function shut(shard, side)
  if shard.open[side] then
    shard.position, shard.at = border(shard, side), side
    shard.open[side], shard.changed = false, true
  end
end

-- see opens a side for an epoch that the shard has not seen.
local function see(shard, side, epoch)
  if shard.epoch[side] < epoch then
    if not shard.open[side] and shard.at == side then
      shard.position, shard.at = border(shard, 3 - side), 3 - side
    end
    shard.epoch[side], shard.open[side], shard.changed = epoch, true, true
  end
end

local learnt -- whether the part is to remember what is known of the expiry
local KNOWN -- whether it has known something of this list's

-- learn adds what the part knows of the expiry. Generations are times: that of a list that was made later stays.
local function learn(text)
  local generation, expires, stamp = string.match(text or '', '^(%d+) (%d+) (%d+)$')
  KNOWN = generation == GENERATION
  if generation and not KNOWN then
    learnt = tonumber(generation) < tonumber(GENERATION) and STAMP > 0
    return
  end
  expires, stamp = tonumber(expires or 0), tonumber(stamp or 0)
  if stamp > STAMP or (stamp == STAMP and expires < EXPIRES) then
    EXPIRES, STAMP = expires, stamp
  end
  learnt = EXPIRES ~= expires or STAMP ~= stamp
end

-- has_expired tells whether the time has come.
local function has_expired()
  return EXPIRES > 0 and clock() >= EXPIRES
end

-- open_shard returns the shard, or nil and why there is none: 'GONE', 'OTHER_GONE', 'EXPIRED', or an error to reply with.
-- closing says that a delete closes the end. Nothing is written.
local function open_shard(closing)
  local fields = redis.call('HMGET', META, 'mark', SHARD, 'expiry')
  local mark = tonumber(fields[1]) or 0
  learn(fields[3])
  local shard, problem
  if not fields[1] and not fields[2] and is_away(ELEMENTS) then
    return nil, moving_shard(IDS[SIDE])
  end
  local alone = IDS[1] == IDS[2]
  if fields[2] then
    shard, problem = read_shard(IDS[SIDE], fields[2])
    if not shard then
      return nil, problem
    end
  elseif EPOCHS[SIDE] <= mark then
    return nil, 'GONE'
  elseif alone and not closing and EPOCHS[OTHER] <= mark then
    return nil, 'OTHER_GONE'
  elseif not alone and not closing and has_expired() then
    return nil, 'EXPIRED'
  else
    shard = {
      open = { false, false }, armed = false, at = OTHER, epoch = { mark, mark }, position = BORDERS[SIDE], size = 0,
      changed = true, made = true,
    }
  end
  shard.mark = mark
  see(shard, SIDE, EPOCHS[SIDE])
  if alone and not closing then
    see(shard, OTHER, EPOCHS[OTHER])
  elseif not alone and shard.open[OTHER] and shard.epoch[OTHER] < EPOCHS[OTHER] then
    shut(shard, OTHER) -- a failover has taken back that its pointer left
    shard.left = true
  end
  if EXPIRES > 0 and shard.open[1] and shard.open[2] and shard.size == 0 then
    EXPIRES, learnt = 0, learnt or KNOWN -- the list is empty
  elseif not closing and has_expired() then
    return nil, 'EXPIRED'
  end
  if shard.timed ~= (EXPIRES > 0) then
    shard.timed, shard.changed = EXPIRES > 0, true
  end
  return shard
end

-- save_learnt writes the expiry, if the part has not known it.
local function save_learnt()
  if learnt then
    redis.call('HSET', META, 'expiry', string.format('%s %.0f %.0f', GENERATION, EXPIRES, STAMP))
  end
end

-- save_shard writes the state, if it has changed.
local function save_shard(shard)
  save_learnt()
  if shard.changed then
    local third = (shard.armed and 1 or 0) + (shard.timed and 2 or 0)
    local flags = (shard.open[1] and 1 or 0) .. (shard.open[2] and 1 or 0) .. third .. (shard.at == 1 and 'L' or 'R')
    redis.call('HSET', META, SHARD, flags .. string.format(' %.0f %.0f %.0f', shard.epoch[1], shard.epoch[2], shard.position))
  end
  if shard.made then
    redis.call('PERSIST', META)
  end
end

-- expire_part lets a part without shards expire.
local function expire_part()
  local fields = redis.call('HLEN', META)
  if fields == 1 or (fields == 2 and redis.call('HEXISTS', META, 'expiry') == 1) then
    redis.call('PEXPIRE', META, PART_MS)
  end
end

-- disarm wakes the consumer that waits, if it can be reached, see shared/bell.lua.
local function disarm(shard)
  if shard.armed then
    shard.armed, shard.changed = false, true
    return bell_is_here()
  end
end

-- refusal returns a result that is none: what the client has to do before it tries again, with the epochs that it knew, a
-- number, and the stamp of an expiry that is void. With EXPIRED, the number is the stamp of the expiry.
local function refusal(word, value)
  local text = word .. string.format(' %.0f %.0f %.0f', EPOCHS[1], EPOCHS[2], value or word == 'EXPIRED' and STAMP or 0)
  return EXPIRES == 0 and STAMP > 0 and text .. string.format(' %.0f', STAMP) or text
end

-- In each call:

do
  local first, last, left, right, left_border, right_border, capacity, expiry
  GENERATION, first, last, left, right, left_border, right_border, capacity, expiry =
    string.match(ARGV[5], '^(%d+) (%S+) (%S+) (%d+) (%d+) (%S+) (%S+) (%d+)(.*)$')
  local expires, stamp = string.match(expiry, '^ (%d+) (%d+)$')
  EXPIRES, STAMP = tonumber(expires or 0), tonumber(stamp or 0)
  CAPACITY = tonumber(capacity)
  IDS = { tonumber(first), tonumber(last) }
  EPOCHS = { tonumber(left), tonumber(right) }
  BORDERS = { tonumber(left_border), tonumber(right_border) }
end
SIDE = ARGV[4] == 'L' and 1 or 2
OTHER = 3 - SIDE
SHARD = GENERATION .. '.' .. IDS[SIDE]
ELEMENTS = PREFIX .. SHARD
learnt, KNOWN = false, false
