-- A step of COPY, see shared/searched.lua: copies shards to keys that expire unless commands/copy.lua makes them a list.
--
-- requires: shared/take_in shared/searched
--
-- KEYS  1 meta
-- ARGV  1 and 2 the first and the last shard, 3 how many to copy, 4 the name of the note, 5 the prefix of the copies, 6 how
--       many milliseconds they live
-- Reply the last shard that was copied; or MORE if the note is not here
-- Cost  two calls a shard, each of which is copied by the server.

local list, problem = open('reading')
if problem then
  return problem
elseif not take_note(list, ARGV[4]) then -- which is not saved; a step that comes late must not change a copy that is done
  return MORE
end
local last = math.min(tonumber(ARGV[2]), ARGV[1] + ARGV[3] - 1)
for id = math.max(tonumber(ARGV[1]), list.first), math.min(last, list.last) do
  if redis.call('COPY', list.shards .. id, ARGV[5] .. id, 'REPLACE') == 0 then
    return missing(list, id)
  end
  redis.call('PEXPIRE', ARGV[5] .. id, ARGV[6])
end
return tostring(last)
