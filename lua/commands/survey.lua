-- Returns what is to be known of a list at a glance, whatever it is: sharded, spread, or plain, and whether it is a queue.
--
-- requires: shared/describe shared/sample shared/jobs
--
-- KEYS  1 meta
-- ARGV  1 how many shards to measure, or 0
-- Reply nil if neither the keys nor the plain key are a list or a queue. Of a spread list, 'spread' and the fields layout, old
--       and expiry, of which the caller has to read more. Else 'list'; an array as commands/info.lua replies with; the lengths
--       of the first and the last shard; the bytes as in shared/sample.lua; the time left in milliseconds, or -1; the TTL of
--       meta; and nil, or of a queue: how many jobs are delayed and leased, the fields done, failed, dead, paused and waits,
--       and the id of the next job of the list, or ''
-- Flags allow-oom
-- Cost  O(1), but O(log(jobs leased and delayed)) for a queue; and one MEMORY USAGE for each shard to measure.
--
-- Safe because it changes nothing.

-- is_grave tells whether the list is that of the dead of a queue.
local function is_grave()
  local stem = string.match(PREFIX, '^(.*:)dead:$')
  return stem and redis.call('EXISTS', stem .. 'queue') == 1
end

-- read_queue returns the numbers of a queue, or false if there is none: until a consumer comes, only its jobs tell. Whatever
-- else has a name like its keys' is none.
local function read_queue(list)
  local fields = redis.pcall('HMGET', QUEUE, 'done', 'failed', 'dead', 'paused', 'waits', 'guard', 'tat')
  local delayed = redis.pcall('ZCOUNT', TIMES, '(0', '+inf')
  local leased = redis.pcall('ZCOUNT', TIMES, '-inf', '(0')
  if fields.err or type(delayed) == 'table' or type(leased) == 'table' then
    return false
  end
  local numbers, known = { delayed, leased }, delayed + leased > 0
  for i = 1, 7 do
    known = known or fields[i]
    numbers[i + 2] = i == 5 and (fields[i] or '') or tonumber(fields[i]) or 0
  end
  numbers[8], numbers[9] = '', nil
  if not is_empty(list) then
    local at_right = list.join == 3 -- newcomers join at the left, since somebody has popped there
    local next_job = redis.call('LINDEX', list.shards .. (at_right and list.last or list.first), at_right and -1 or 0)
    numbers[8] = next_job and read_envelope(next_job) or ''
  end
  return (known or (numbers[8] ~= '' and not is_grave())) and numbers
end

-- plain_only is describe where meta is that of a spread list that was deleted, or a key of somebody else's.
local function plain_only()
  local size = PLAIN and not rung_by(PLAIN) and redis.pcall('LLEN', PLAIN)
  if type(size) ~= 'number' or size == 0 then
    return false
  end
  local list = { shards = prefix_of(PLAIN), first = 0, last = 0, join = 0 }
  return { 0, 0, 0, size, 0, 0, '', 0, 0, '', size, 0 }, list, size, size
end

local layout = redis.pcall('HGET', META, 'layout')
local flags = type(layout) == 'string' and string.match(layout, '^4 .* (%d)$') -- see shared/spread_pointers.lua
local deleted = flags and (flags % 2 == 1 or flags % 4 < 2)
if flags and not deleted then
  local fields = redis.call('HMGET', META, 'layout', 'old', 'expiry')
  return { 'spread', fields[1], fields[2] or '', fields[3] or '' }
end
local info, list, head, tail
if deleted or type(layout) == 'table' or (not layout and redis.call('EXISTS', META) == 1) then
  info, list, head, tail = plain_only()
else
  info, list, head, tail = describe(true)
end
if not info then
  return list or false
end

local bytes, left = 0, -1
if not is_empty(list) then
  if tonumber(ARGV[1]) > 0 then
    local measured, result = pcall(sample, list, tonumber(ARGV[1])) -- a user may have no permission for it
    bytes = measured and result or 0
  end
  if type(list.shards) == 'table' then
    left = redis.call('PTTL', list.shards .. list.first)
  elseif list.expires then
    left = list.expires - list.now
  end
end
return { 'list', info, head, tail, bytes, left, redis.call('PTTL', META), read_queue(list) }
