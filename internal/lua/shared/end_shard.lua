-- The shard at an end of a spread list.
--
-- A spread list has its shards in many slots, so no script can touch two of them, nor a shard and the pointers. A client sends
-- what it knows of the pointers. The shard finds out whether it is still the end by epochs: every change of a pointer has a
-- new one, they only grow, and a shard remembers the newest that it has seen of either side. docs/design.md, "Spread lists",
-- has the protocol, and docs/models/spread.py is it as a program.
--
-- KEYS[1], the part, is a hash. It has the state of each of its shards, in the field '<generation>.<id>':
--   <left is open><right is open><a consumer waits><side> <epoch of left> <epoch of right> <position>
-- The first three are digits. Side is L or R: the position is that of the border there, one which cannot move. The field mark
-- is the watermark: no shard is made again for an epoch up to it. Without shards, the part expires.
--
-- ARGV  4 'L' or 'R', the end; 5 the pointers that the client knows:
--       '<generation> <first> <last> <epoch of left> <epoch of right> <left border> <right border> <capacity>'
--
-- requires: shared/session shared/bell

local PART_MS = 180000 -- longer than any client acts on pointers that it has read
local NUMBER = '%-?%d+'
local STATE_FORM = '^(%d)(%d)(%d)([LR]) (%d+) (%d+) (' .. NUMBER .. ')$'

local SIDE = ARGV[4] == 'L' and 1 or 2
local OTHER = 3 - SIDE
local IDS, EPOCHS, BORDERS = {}, {}, {} -- of left and right
local GENERATION, CAPACITY
do
  local g, first, last, left, right, left_border, right_border, capacity =
    string.match(ARGV[5], '^(%d+) (%S+) (%S+) (%d+) (%d+) (%S+) (%S+) (%d+)$')
  GENERATION, CAPACITY = g, tonumber(capacity)
  IDS = { tonumber(first), tonumber(last) }
  EPOCHS = { tonumber(left), tonumber(right) }
  BORDERS = { tonumber(left_border), tonumber(right_border) }
end
local SHARD = GENERATION .. '.' .. IDS[SIDE] -- the field of its state
local ELEMENTS = PREFIX .. SHARD

-- parse_shard returns the state that a field holds, or nil if it is broken.
local function parse_shard(text)
  local left, right, armed, side, left_epoch, right_epoch, position = string.match(text, STATE_FORM)
  return left and {
    open = { left == '1', right == '1' }, armed = armed == '1', at = side == 'L' and 1 or 2,
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

-- open_shard returns the shard, or nil and why there is none: 'GONE', 'OTHER_GONE', or an error to reply with. closing says
-- that a delete closes the end. Nothing is written.
local function open_shard(closing)
  local fields = redis.call('HMGET', META, 'mark', SHARD)
  local mark = tonumber(fields[1]) or 0
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
  return shard
end

-- save_shard writes the state, if it has changed.
local function save_shard(shard)
  if shard.changed then
    local flags = (shard.open[1] and 1 or 0) .. (shard.open[2] and 1 or 0) .. (shard.armed and 1 or 0)
    flags = flags .. (shard.at == 1 and 'L' or 'R')
    redis.call('HSET', META, SHARD, flags .. string.format(' %.0f %.0f %.0f', shard.epoch[1], shard.epoch[2], shard.position))
  end
  if shard.made then
    redis.call('PERSIST', META)
  end
end

-- expire_part lets a part without shards expire.
local function expire_part()
  if redis.call('HLEN', META) == 1 then
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

-- refusal returns a result that is none: what the client has to do before it tries again, with the epochs that it knew.
local function refusal(word, value)
  return word .. string.format(' %.0f %.0f %.0f', EPOCHS[1], EPOCHS[2], value or 0)
end
