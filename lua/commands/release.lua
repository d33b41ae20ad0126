-- Releases one blocked consumer, without an element or to look for one. Its BLPOP also watches a release key of its own.
--
-- KEYS  1 the release key
-- ARGV  1 its TTL in milliseconds, 2 'look' if the pop behind the BLPOP is to take elements
-- Reply 1
-- Flags allow-oom
-- Cost  O(1).
--
-- It pushes two dummies: BLPOP takes one, and the pop behind it sees the other and takes nothing. To look, there is one.
-- DEL comes first because OOM allows it, and then the rest.

redis.call('DEL', KEYS[1])
redis.call('RPUSH', KEYS[1], '1')
if ARGV[2] ~= 'look' then
  redis.call('RPUSH', KEYS[1], '1')
end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
