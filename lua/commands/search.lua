-- A step of a search, see shared/searches.lua.
--
-- requires: shared/length shared/take_in shared/searched
--
-- KEYS  1 meta
-- ARGV  1 'begin': 2 a new id, 3 the name of the note that this one replaces, or '', 4 how many milliseconds the note is valid;
--       or 'read': 2 the value, 3 1 to search from the left, -1 from the right, 4 and 5 the first and the last shard, in that
--       direction, 6 how many elements to search about, 7 how many matches in one shard are enough, or 0, 8 the name of the
--       note;
--       or 'end': 2 the name of the note
-- Reply begin: the name of the note, the first and the last shard, and of the former one low, high and marks, if it was there;
--       'LONG' if a long shard must be split first; nil if the list cannot be searched in steps.
--       read: the last shard that was read, how many elements it has searched, and for each shard with matches its id and
--       '<offset>,' for each; or MORE if the note is not here. end: OK
-- Flags allow-oom
-- Cost  O(elements searched), one call a shard.

local list, problem = open('reading')
if problem then
  return problem
end
local steps = {}

function steps.begin()
  local head, tail = measure(list)
  if not head then
    return tail
  elseif is_empty(list) or list.restored or list.restores or list.gathers or type(list.shards) == 'table' then
    return false
  elseif list.part or head > cap_at(list, list.first) or tail > cap_at(list, list.last) then
    return redis.status_reply('LONG')
  end
  local now, time = clock(), redis.call('TIME')
  local name = table.concat({ ARGV[2], '.', time[1], '.', time[2] })
  local reply = { name, tostring(list.first), tostring(list.last) }
  local former = take_note(list, ARGV[3])
  if former then
    reply[4], reply[5], reply[6] = tostring(former.low), tostring(former.high), string.sub(former.marks, 2)
  end
  redis.call('HDEL', META, 'armed') -- changes nothing, and OOM allows it
  local note = string.format('%s %.0f %d %d ;', name, now + ARGV[4], list.first, list.last)
  list.searches = (list.searches or '') .. note
  redis.call('HSET', META, 'searches', list.searches)
  save_list(list)
  return reply
end

function steps.read()
  local direction, id, stop = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
  local budget, read, elements = tonumber(ARGV[6]), 0, 0
  local reply = { '', '' }
  if not take_note(list, ARGV[8]) then -- which is not saved; the list may be another one, or none
    return MORE
  end
  while (stop - id) * direction >= 0 and read < budget do
    if id >= list.first and id <= list.last then
      local size, reason = shard_length(list, id)
      if not size then
        return reason
      end
      local offsets = redis.call('LPOS', list.shards .. id, ARGV[2], 'RANK', direction, 'COUNT', ARGV[7])
      if #offsets > 0 then
        reply[#reply + 1], reply[#reply + 2] = tostring(id), table.concat(offsets, ',') .. ','
      end
      read, elements = read + SHARD_COST + size, elements + size
    else
      read = read + 1
    end
    id = id + direction
  end
  reply[1], reply[2] = tostring(id - direction), elements
  return reply
end

steps['end'] = function()
  if take_note(list, ARGV[2]) then
    redis.call('HDEL', META, 'armed')
    save_list(list)
  end
  return redis.status_reply('OK')
end

return steps[ARGV[1]]()
