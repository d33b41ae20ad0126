-- Removes elements that equal a value, as LREM does.
--
-- requires: shared/session shared/length shared/sweep shared/emptied shared/shards shared/values shared/take_in
--
-- KEYS  1 meta
-- ARGV  1 to 3 see shared/operation.lua, 4 how many: from the left end if positive, from the right end if negative, all if 0,
--       5 the value
-- Reply how many elements were removed
-- Cost  O(elements searched), two calls a shard. Then the gaps are closed from the nearer end of the list: O(elements that
--       move), each of them once, and about four calls for each shard from there to the farthest gap.
--
-- Safe because it reads every shard that will change before the first write, and because that write cannot grow the data set:
-- OOM allows it. A shard that stays is never without elements in between: while its slot moves, a deleted key cannot be created
-- again. So elements are copied to their new shard. Those that a shard has given away, or loses together with all others, stay
-- in it as stale ones until it has been filled again.

local done, failure = replay()
if done or failure then
  return tonumber(done) or failure
end
local list, problem = open()
if problem then
  return problem
end
local count, value = tonumber(ARGV[4]), ARGV[5]
local head, tail, length = measure(list)
if not head then
  return tail
end

-- Read: how many elements each shard loses, and keeps.
local direction = count < 0 and -1 or 1
local wanted = count == 0 and length or math.min(math.abs(count), length)
local loses, keeps = {}, {} -- by id
local lowest, highest, removed = math.huge, -math.huge, 0
local id = count < 0 and list.last or list.first
while removed < wanted and id >= list.first and id <= list.last do
  local size
  size, problem = shard_length(list, id)
  if not size then
    return problem
  end
  local found = redis.call('LPOS', list.shards .. id, value, 'RANK', direction, 'COUNT', math.min(wanted - removed, size))
  keeps[id] = size - #found
  if #found > 0 then
    loses[id] = #found
    lowest, highest = math.min(lowest, id), math.max(highest, id)
    removed = removed + #found
  end
  id = id + direction
end
if removed == 0 then
  touch()
  sweep(list)
  save_result(0)
  return 0
end

-- plan says what closing the gaps from one end, near, takes: far is the outermost shard at the other end that keeps elements.
-- gap is the farthest gap between the two, or lies beyond near if there is none. shards is the number from there to near.
local function plan(step)
  local near = step < 0 and list.first or list.last
  local far = step < 0 and list.last or list.first
  while keeps[far] == 0 and far ~= near do
    far = far + step
  end
  local gap = step > 0 and math.max(far + step, lowest) or math.min(far + step, highest)
  while gap >= lowest and gap <= highest and not loses[gap] do
    gap = gap + step
  end
  if not loses[gap] then
    gap = near + step
  end
  return { step = step, near = near, far = far, gap = gap, shards = (near - gap) * step + 1 }
end
local chosen, other = plan(-1), plan(1)
if other.shards < chosen.shards then
  chosen = other
end
local step, near, far = chosen.step, chosen.near, chosen.far
for changing = chosen.gap, near, step do
  if not keeps[changing] then
    keeps[changing], problem = shard_length(list, changing)
    if problem then
      return problem
    end
  end
end

-- Write: the removals. The first write changes nothing, as no list with elements is armed. OOM allows it, and then the pushes
-- that follow.
redis.call('HDEL', META, 'armed')
if removed == length then
  for gone = list.first, list.last do
    redis.call('UNLINK', list.shards .. gone)
  end
  on_emptied(list)
  sweep(list)
  save_result(removed)
  return removed
end
local stale = {} -- by id
for changing, number in pairs(loses) do
  if keeps[changing] > 0 then
    redis.call('LREM', list.shards .. changing, number * direction, value)
  else
    stale[changing] = number
  end
end

-- move copies elements from a shard to the next one to fill, which is farther from the near end.
local function move(from, to, number)
  for moved = 0, number - 1, UNPACK_MAX do
    local size = math.min(UNPACK_MAX, number - moved)
    local start = step > 0 and (stale[from] or 0) + moved or keeps[from] - moved - size
    local elements = redis.call('LRANGE', list.shards .. from, start, start + size - 1)
    if step > 0 then
      redis.call('RPUSH', list.shards .. to, unpack(elements))
    else
      local reversed = {}
      for i = size, 1, -1 do
        reversed[#reversed + 1] = elements[i]
      end
      redis.call('LPUSH', list.shards .. to, unpack(reversed))
    end
  end
  keeps[from], keeps[to] = keeps[from] - number, keeps[to] + number
  stale[from] = (stale[from] or 0) + number
end

-- Close the gaps, starting with the farthest one. Shards at the near end that get no elements are deleted.
local to, from = chosen.gap, chosen.gap + step
while (near - to) * step >= 0 do
  if from == to then
    from = to + step
  end
  while keeps[to] < list.cap and (near - from) * step >= 0 do
    move(from, to, math.min(list.cap - keeps[to], keeps[from]))
    if keeps[from] == 0 then
      from = from + step
    end
  end
  if keeps[to] == 0 then
    break
  end
  trim_stale(list, to, stale[to] or 0, step < 0)
  to = to + step
end
for gone = to, near, step do
  redis.call('UNLINK', list.shards .. gone)
end
for gone = far - step, step > 0 and list.first or list.last, -step do
  redis.call('UNLINK', list.shards .. gone)
end
local first = step > 0 and far or to - step
local last = step > 0 and to - step or far
if first ~= list.first or last ~= list.last then
  list.first, list.last = first, last
  save_list(list)
end
sweep(list)
save_result(removed)
return removed
