-- Begins or ends the delete of a spread list, which may have expired, or notes what has been unlinked of it.
--
-- requires: shared/spread_pointers
--
-- KEYS  1 meta
-- ARGV  1 'begin', 'expired', 'on', 'end' or 'swept'; 2 the generation; with 'expired', 3 the stamp of the expiry whose time
--       has come, says a shard: if there is another by now, the list stays; with 'on', if a shard says that this expiry does
--       not count, 3 and 4 the stamp and the time of the one that does; with 'end', 3 'expired' if the ends were closed for
--       that; with 'swept', 3 the id up to which its shards are swept
-- Reply as that of commands/spread_pointers.lua
-- Flags allow-oom
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
elseif p.generation ~= tonumber(ARGV[2]) then
  return reply()
elseif ARGV[1] == 'begin' and (not p.deleting or p.expired) then
  p.deleting, p.expired = true, false
  save_pointers(p)
elseif ARGV[1] == 'expired' and not p.deleting then
  local time, stamp, by = read_expiry()
  local told = tonumber(ARGV[3])
  if stamp < told or stamp == told and time ~= 0 then -- less, if a failover has taken it back
    p.deleting, p.expired = true, true
    save_pointers(p)
    save_expiry(math.max(1, time), told, by)
  end
elseif ARGV[1] == 'on' and p.expired then
  local _, stamp, by = read_expiry()
  if tonumber(ARGV[3]) >= stamp then
    p.deleting, p.expired = false, false
    save_pointers(p)
    save_expiry(tonumber(ARGV[4]), tonumber(ARGV[3]), by)
  end
elseif ARGV[1] == 'end' and p.deleting and (not p.expired or ARGV[3] == 'expired') then
  local old = redis.call('HGET', META, 'old') or ''
  redis.call('HSET', META, 'old', old .. string.format('%.0f %.0f %.0f ', p.generation, p.ids[1], p.ids[2]))
  p.generation, p.deleting, p.used, p.expired = p.next, false, false, false
  p.ids, p.epochs, p.borders = { p.ids[2], p.ids[2] }, { p.next, p.next }, { 0, 0 }
  if redis.call('HEXISTS', META, 'expiry') == 1 then
    save_expiry(0, p.next, '')
  end
  p.next = p.next + 1
  save_pointers(p)
end
return reply()
