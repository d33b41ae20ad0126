-- Searches in steps: what they must not take for known.
--
-- LPOS, LREM and LINSERT look at a long list in steps, and others change it meanwhile. A client notes its search in the field
-- searches of meta: '<name> <until> <low> <high> <marks>;' for each, of which until is the Unix time in milliseconds at which
-- the note is void. Shards up to low and from high on may have changed since, and those in marks, as '<id>,'. All others have
-- not. docs/models/search.py is the protocol as a program.
--
-- An end shard counts as changed from the start, since pushes and pops there write no meta. So whoever moves a pointer, which
-- is save_list, moves low and high with it; and what changes shards between the ends calls save_searches itself.
--
-- requires: shared/server

-- save_searches updates the notes after the shards from one id to another, if any, have changed: one shard, or all to an end.
-- The script has written before. Notes go with the elements, and when the list becomes a plain one. A note with too many marks
-- is dropped: the search begins again.
local function save_searches(list, from, to)
  local notes = list.searches
  if not notes then
    return
  end
  local now = clock()
  list.searches = string.gsub(notes, '(%S+ (%d+)) (%S+) (%S+) ([^;]*);', function(note, valid, low, high, marks)
    low, high = math.max(low, list.first), math.min(high, list.last)
    if from and from <= low then
      low = math.max(low, to)
    elseif from and to >= high then
      high = math.min(high, from)
    elseif from and not string.find(',' .. marks, ',' .. from .. ',', 1, true) then
      marks = marks .. from .. ','
    end
    local void = list.first > list.last or list.restored or list.restores or list.gathers or valid + 0 < now or #marks > 400
    return void and '' or table.concat({ note, low, high, marks .. ';' }, ' ')
  end)
  if list.searches == '' then
    redis.call('HDEL', META, 'searches')
    list.searches = nil
  else
    redis.call('HSET', META, 'searches', list.searches)
  end
end
