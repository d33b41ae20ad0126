-- Searches for elements that equal a value, and what is known from steps before: what they have found, or have copied.
--
-- The caller says what is known: '' if nothing is, and the script is to search all shards; or how many elements it is to
-- search at the most, which 50,000 take the server about two milliseconds; or that, and behind a space each the name of the
-- note in shared/searches.lua, the ranges of shards that the steps have read, as '<from>:<to>,', and the shards in which they
-- have found something, as '<id>:<offset>,;' with all offsets.
--
-- requires: shared/list shared/searches

local SHARD_COST = 25 -- a shard takes as long as that many elements
local MORE = { ok = 'MORE' } -- what commands reply if steps must come before

-- take_note takes the note of that name out of the state of the list, and returns it; or nil if there is none.
local function take_note(list, name)
  for text in string.gmatch(list.searches or '', '[^;]+;') do
    local called, low, high, marks = string.match(text, '(%S+) %d+ (%S+) (%S+) (.*);')
    if called == name then
      local from, to = string.find(list.searches, text, 1, true)
      list.searches = string.sub(list.searches, 1, from - 1) .. string.sub(list.searches, to + 1)
      return { low = tonumber(low), high = tonumber(high), marks = ',' .. marks }
    end
  end
end

-- begin_search reads what is known. It returns MORE if that is void.
-- known_at returns the offsets that the steps have found in a shard, as a text; or nil if that is not known: what the steps
-- have read, or copied, may have changed since.
-- find_in returns the offsets of up to count elements in a shard of that size that equal the value, or nil if the script must
-- not search it. most is how many elements to compare. trusts says that matches need not be found again: a failover may have
-- undone what made them. The end shards are always searched, and do not count.
-- end_search drops the note, which begin_search has taken out.
local begin_search, known_at, find_in, end_search
do
  local note, ranges, matches -- of the steps
  local unsearched -- how many elements the script may yet search; nil if that is not limited

  function begin_search(list, known)
    local most, name, read, found = string.match(known, '^(%d*) ?(%S*) ?(%S*) ?(.*)$')
    note, unsearched = nil, tonumber(most)
    if name == '' or is_empty(list) then
      return nil
    end
    ranges, matches = {}, {}
    for from, to in string.gmatch(read, '(%-?%d+):(%-?%d+),') do
      ranges[#ranges + 1] = { tonumber(from), tonumber(to) }
    end
    for id, offsets in string.gmatch(found, '(%-?%d+):([^;]*);') do
      matches[tonumber(id)] = offsets
    end
    note = take_note(list, name)
    return not note and MORE or nil
  end

  function known_at(id)
    if note and id > note.low and id < note.high and not string.find(note.marks, ',' .. id .. ',', 1, true) then
      for _, range in ipairs(ranges) do
        if id >= range[1] and id <= range[2] then
          return matches[id] or ''
        end
      end
    end
  end

  function find_in(list, id, size, value, direction, count, most, trusts)
    local known = known_at(id)
    if not known or known ~= '' and not trusts then
      if not known and unsearched and id ~= list.first and id ~= list.last then
        unsearched = unsearched - SHARD_COST - size
        if unsearched < 0 then
          return nil
        end
      end
      return redis.call('LPOS', list.shards .. id, value, 'RANK', direction, 'COUNT', count, 'MAXLEN', most)
    end
    local offsets = {}
    for offset in string.gmatch(known, '%d+') do
      local compared = direction > 0 and offset + 1 or size - offset
      if #offsets < count and compared <= most then
        offsets[#offsets + 1] = tonumber(offset)
      end
    end
    return offsets
  end

  function end_search(list)
    if note then
      redis.call('HDEL', META, 'armed') -- changes nothing, and OOM allows it
      save_list(list)
    end
  end
end
