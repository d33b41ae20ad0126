-- How a list is stored.
--
-- requires: shared/length

-- describe returns what commands/info.lua replies with, and the state of the list and the lengths of its end shards; or nil and
-- the error. It takes no newcomers in: it tells of them. any is as for open.
local function describe(any)
  local newcomers = PLAIN and not rung_by(PLAIN) and redis.pcall('LLEN', PLAIN)
  local list, problem = open('reading', any)
  if problem then
    return nil, problem
  end
  local head, tail, length = measure(list)
  if not head then
    return nil, tail
  end
  local capacity = is_empty(list) and 0 or cap_at(list, list.last)
  local unswept = 0
  for _, range in ipairs(list.stale or {}) do
    unswept = unswept + range.hi - range.lo + 1
  end
  local at_plain = type(list.shards) == 'table' -- the list is the plain list
  newcomers = type(newcomers) == 'number' and not at_plain and newcomers or 0
  local state = list.restored and not list.short and 'restored' or list.restores and 'restoring' or ''
  return {
    list.first, list.last, at_plain and 0 or capacity, length, list.armed and 1 or 0, unswept,
    not at_plain and list.shards or '', newcomers, list.join, state,
    at_plain and length or is_empty(list) and 0 or unsplit(list, head, tail), #(list.steps or {}),
  }, list, head, tail
end
