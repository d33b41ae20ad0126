-- Returns the fields of meta and the length of the list.
--
-- requires: shared/describe
--
-- KEYS  1 meta
-- ARGV  none
-- Reply first, last, the capacity (0 if the list is empty), the length, 1 if a consumer waits or else 0, how many ids are
--       still to be swept, the prefix of the shards' keys, '' if there is none; the number of newcomers, and the end that they
--       join, as in shared/pointers.lua; 'restoring' or 'restored', or ''; the elements of long shards beyond the capacity; and
--       the number of steps of shared/capacities.lua: if there are any, the capacity is that of the last shard
-- Flags allow-oom
-- Cost  O(1).
--
-- It takes no newcomers in: it tells of them.

local info, problem = describe()
return info or problem
