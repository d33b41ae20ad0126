-- Releases one blocked consumer, whose BLPOP also watches a key of its own, without an element.
--
-- KEYS  1 the release key
-- ARGV  1 its life in milliseconds
-- Reply 1
-- Cost  O(1).
--
-- Two dummies: BLPOP takes one, the pop behind it sees the other and knows that it is to take nothing. DEL comes first so
-- that a full server lets the rest pass.

redis.call('DEL', KEYS[1])
redis.call('RPUSH', KEYS[1], '1', '1')
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
