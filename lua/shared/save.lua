-- Writes the state of a list to meta.
--
-- requires: shared/write_pointers shared/stale shared/capacities shared/searches

-- save_list writes the state of the list, but not what only commands/expire.lua and commands/copy.lua write: they set more,
-- so that others look for it.
local save_list
do
  -- save_part writes the part, unless it is an end by now, or no more in the list.
  local function save_part(list)
    list.part = list.part and list.first < list.part and list.part < list.last and list.part or nil
    if list.part and list.part ~= list.saved_part then
      redis.call('HSET', META, 'part', list.part)
    elseif list.saved_part and not list.part then
      redis.call('HDEL', META, 'part')
    end
    list.saved_part = list.part
  end

  -- save_steps writes the field caps, if it has changed.
  local function save_steps(list)
    local words = list.steps and { list.begun }
    for i, step in ipairs(list.steps or {}) do
      words[i + 1] = step.id .. ':' .. step.cap
    end
    local text = words and table.concat(words, ' ')
    if text and text ~= list.saved_steps then
      redis.call('HSET', META, 'caps', text)
    elseif list.saved_steps and not text then
      redis.call('HDEL', META, 'caps')
    end
    list.saved_steps = text
  end

  function save_list(list)
    local more = list.stale or list.expires or list.records or list.old_records or list.more or list.restores or list.gathers
      or list.part or list.saved_part or list.steps or list.saved_steps or list.searches and list.searches ~= ''
    if list.short then
      local short = list.short
      if list.armed or list.stale or list.records or list.old_records then
        write_pointers(more, list.first, list.first - 1, short.cap, list.armed, list.join, short.shards or '')
        list.has_meta = true
      elseif list.has_meta then
        redis.call('DEL', META)
        list.has_meta = false
      end
    elseif list.restored then
      list.steps = nil
      write_pointers(more, 0, -1, 0, list.armed, list.join, '=' .. list.restored .. '=')
    else
      write_pointers(more, list.first, list.last, list.cap, list.armed, list.join, list.shards or '')
    end
    if list.stale then
      redis.call('HSET', META, 'stale', stale_text(list))
    end
    save_part(list)
    save_steps(list)
    if list.has_meta ~= false then
      save_searches(list)
    end
  end
end
