-- Returns the indices of elements that equal a value, as LPOS does.
--
-- requires: shared/length shared/take_in shared/searched
--
-- KEYS  1 meta
-- ARGV  1 see shared/searched.lua, 2 the value, 3… the options, as LPOS takes them
-- Reply the index, or nil if there is none; with COUNT, an array of indices; or MORE: steps must come before
-- Flags allow-oom
-- Cost  O(elements searched), one call a shard, or two if no element of the shard equals the value.

-- The server checks the options, and does so before it finds that meta is no list.
local verdict = redis.pcall('LPOS', META, unpack(ARGV, 2))
if type(verdict) == 'table' and verdict.err and not string.find(verdict.err, 'WRONGTYPE', 1, true) then
  return verdict
end
local list, problem = open('reading')
if problem then
  return problem
end
local head, tail, length = measure(list)
if not head then
  return tail
end
local options = { RANK = 1, MAXLEN = 0 }
for i = 3, #ARGV, 2 do
  options[string.upper(ARGV[i])] = tonumber(ARGV[i + 1])
end
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '-9223372036854775808' then
    -- Only Redis 7.0 and older let it pass. They cannot negate it, and so take any element for one of that rank.
    options.RANK = -1
  end
end
local step = options.RANK < 0 and -1 or 1
local skip = math.abs(options.RANK) - 1
local wanted = options.COUNT == 0 and length or options.COUNT or 1
local unread = options.MAXLEN == 0 and length or math.min(options.MAXLEN, length)

problem = begin_search(list, ARGV[1])
if problem then
  return problem
end
local found = {}
local id, before = list.first, 0 -- the shard, and the number of elements to the left of it
if step < 0 then
  id, before = list.last, length - tail
end
while unread > 0 and #found < wanted do
  local size = length_of(list, id, head, tail)
  local most = math.min(skip + wanted - #found, size)
  local offsets = find_in(list, id, size, ARGV[2], step, most, math.min(unread, size), true)
  if not offsets then
    return MORE
  elseif #offsets == 0 and known_at(id) ~= '' and redis.call('LLEN', list.shards .. id) == 0 then
    return missing(list, id)
  end
  for _, offset in ipairs(offsets) do
    if skip > 0 then
      skip = skip - 1
    else
      found[#found + 1] = before + offset
    end
  end
  unread = unread - size
  id = id + step
  before = before + (step > 0 and size or -length_of(list, id, head, tail))
end
if options.COUNT then
  return found
end
return found[1] or false
