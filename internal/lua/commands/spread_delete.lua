-- Begins or ends the delete of a spread list, or notes what has been unlinked of it.
--
-- requires: shared/spread_pointers
--
-- KEYS  1 meta
-- ARGV  1 'begin', 'end' or 'swept'; 2 the generation; 3 the id up to which its shards are swept
-- Reply as that of commands/spread_pointers.lua
-- Cost  O(1).
--
-- Safe because it may run twice: the generation is another one then. OOM allows its first write.

local p, text = read_pointers()
if not p then
  return false
end
redis.call('HDEL', META, 'never') -- OOM allows this, and then what follows
write_again(text)
if ARGV[1] == 'swept' then
  local old = string.gsub(redis.call('HGET', META, 'old') or '', ARGV[2] .. ' (%S+) (%S+) ', function(first, last)
    local rest = math.max(tonumber(first), ARGV[3] + 1)
    return rest <= tonumber(last) and string.format('%s %.0f %s ', ARGV[2], rest, last) or ''
  end)
  if old == '' then
    redis.call('HDEL', META, 'old')
    if not p.used then
      redis.call('PEXPIRE', META, META_MS)
    end
  else
    redis.call('HSET', META, 'old', old)
  end
elseif p.generation == tonumber(ARGV[2]) and ARGV[1] == 'begin' and not p.deleting then
  p.deleting = true
  save_pointers(p)
elseif p.generation == tonumber(ARGV[2]) and ARGV[1] == 'end' and p.deleting then
  local old = redis.call('HGET', META, 'old') or ''
  redis.call('HSET', META, 'old', old .. string.format('%.0f %.0f %.0f ', p.generation, p.ids[1], p.ids[2]))
  p.generation, p.deleting, p.used = p.next, false, false
  p.ids, p.epochs, p.borders = { p.ids[2], p.ids[2] }, { p.next, p.next }, { 0, 0 }
  p.next = p.next + 1
  save_pointers(p)
end
return reply()
