-- Returns the fields of meta and the length of the list.
--
-- requires: shared/length
--
-- KEYS  1 meta
-- ARGV  none
-- Reply first, last, the capacity (0 if the list is empty), the length, 1 if a consumer waits or else 0, how many ids are
--       still to be swept, the prefix of the shards' keys, '' if there is none; the number of newcomers, and the end that they
--       join, as in shared/pointers.lua; 'restoring' or 'restored', or ''; and the elements of long shards beyond the capacity
-- Cost  O(1).
--
-- It takes no newcomers in: it tells of them.

local newcomers = PLAIN and not rung_by(PLAIN) and redis.pcall('LLEN', PLAIN)
if not WATCHES then
  PLAIN = nil
end
local list, problem = open('reading')
if problem then
  return problem
end
local head, tail, length = measure(list)
if not head then
  return tail
end
local capacity = is_empty(list) and 0 or list.cap
local unswept = 0
for _, range in ipairs(list.stale or {}) do
  unswept = unswept + range.hi - range.lo + 1
end
local at_plain = type(list.shards) == 'table' -- the list is the plain list
local unsplit = at_plain and length or math.max(0, head - capacity)
if list.first < list.last then
  unsplit = unsplit + math.max(0, tail - capacity)
end
newcomers = type(newcomers) == 'number' and not at_plain and newcomers or 0
return {
  list.first, list.last, at_plain and 0 or capacity, length, list.armed and 1 or 0, unswept, not at_plain and list.shards or '',
  newcomers, list.join, list.restored and 'restored' or list.restores and 'restoring' or '', unsplit,
}
