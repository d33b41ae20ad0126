-- The end shard that is aside.
--
-- Lua hashes every byte of a string that it gets. So the values of a large push do not pass through it, in one transaction:
-- commands/push_begin.lua puts the end shard aside, which gives it another name, a plain RPUSHX or LPUSHX pushes onto that, and
-- commands/push_end.lua puts the shard back and writes the record. Nobody sees the list in between, unless the three are no
-- transaction: the user may have no permission for MULTI, or a proxy does not know it. So meta tells what is aside, and
-- whoever opens the list puts it back as it was. docs/models/aside.py is the protocol as a program.
--
-- The name is that of the operation: what is pushed there late finds nothing. The field layout of meta is then
--   '3! <name without PREFIX> <L or R> <length of the shard> <length of the others> ' and what it was before.
--
-- requires: shared/pointers

-- aside_name returns the name of what the operation puts aside, without PREFIX.
local function aside_name()
  return 'op:' .. ARGV[1] .. ':' .. ARGV[2]
end

-- split_aside returns what the field layout says of a shard that is aside, or '', and the pointers.
local function split_aside(layout)
  local aside, pointers = string.match(layout, '^(3! %S+ [LR] %d+ %d+ )(.*)$')
  return aside or '', pointers or layout
end

-- read_aside returns what is aside by the field layout, or nil.
local function read_aside(layout)
  if string.byte(layout, 2) ~= 33 then -- '!'
    return nil
  end
  local name, side, size, others, former = string.match(layout, '^3! (%S+) ([LR]) (%d+) (%d+) (.*)$')
  local _, first, last, cap, _, shards = string.match(former or '', POINTERS)
  if not first then
    return nil
  end
  if string.byte(shards, -1) ~= COLON then
    shards = PREFIX .. shards .. ':'
  end
  local left = side == 'L'
  return {
    name = name, key = PREFIX .. name, left = left, size = tonumber(size), others = tonumber(others), former = former,
    first = tonumber(first), last = tonumber(last), cap = tonumber(cap), shards = shards,
    near = shards .. (left and first or last),
  }
end

-- put_back puts back what is aside, as it was. OOM allows its first write.
local function put_back(aside)
  local surplus = redis.call('LLEN', aside.key) - aside.size
  if surplus > 0 then
    redis.call('LTRIM', aside.key, aside.left and surplus or 0, aside.left and -1 or -surplus - 1)
  end
  redis.call('RENAME', aside.key, aside.near)
  redis.call('HSET', META, 'layout', aside.former)
  return aside.former
end
