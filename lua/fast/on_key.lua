-- Carries out commands on a short list. KEYS and ARGV are those of commands/on_key.lua.
--
-- requires: shared/operation

-- carry_out carries out the commands of one caller after another and returns their replies, up to the first caller for whom the
-- list is too long. It returns false if that is the first of all. The list has size elements.
local function carry_out(size)
  local lines, count, at = {}, 0, 4
  while at < #ARGV do
    local commands, most = ARGV[at] + 0, ARGV[at + 1]
    if most ~= '' and (size or redis.call('LLEN', PLAIN)) > most + 0 then
      break
    end
    size, at = nil, at + 2
    for _ = 1, commands do
      local last = at + 1 + ARGV[at]
      local reply = redis.pcall(ARGV[at + 1], PLAIN, unpack(ARGV, at + 2, last))
      count = count + 1
      if type(reply) == 'number' then
        lines[count] = ':' .. reply
      else
        lines[count] = reply.ok and '+' .. reply.ok or '-' .. reply.err
      end
      at = last + 1
    end
  end
  return count > 0 and table.concat(lines, '\n')
end

-- In each call:

if not FIELD and not BY_PLAIN then
  local there, before, size = redis.pcall('EXISTS', META, PLAIN, RECORD or META), '', 0
  if there ~= 0 then
    before = RECORD and redis.pcall('GETRANGE', RECORD, '0', LAST_OF_LARGE) or ''
    size = redis.pcall('LLEN', PLAIN)
  end
  -- All keys that exist are known, and here: there is no meta.
  if type(size) == 'number' and there == (before == '' and 0 or 1) + (size > 0 and 1 or 0)
    and (before == '' or tonumber(string.match(before, '^%d+')) < SEQUENCE) then
    local result = carry_out(size)
    if result then
      if RECORD and (RENEWS or before == '') then
        redis.call('SET', RECORD, ARGV[2] .. ':' .. result, 'PX', LIFE)
      elseif RECORD then
        redis.call('SET', RECORD, ARGV[2] .. ':' .. result, 'KEEPTTL')
      end
      return result
    end
  end
end
