-- Finds the shard at an end of a spread list, if its state stays as it is. shared/end_shard.lua explains the arguments and the
-- state, and fast/begin.lua why this is here.
--
-- requires: fast/record

local END, FAST_SIZE -- the key of the shard, the number of its elements
local FAR_BORDER -- the position of its border at the other side, or nil if it is all of the list
if RECORD then
  local left = ARGV[4] == 'L'
  local generation, first, last, left_epoch, right_epoch = string.match(ARGV[5], '^(%d+) (%S+) (%S+) (%d+) (%d+) ')
  local shard = generation .. '.' .. (left and first or last)
  local state = redis.pcall('HGET', META, shard)
  if type(state) == 'string' then
    local l, r, armed, l_epoch, r_epoch, position = string.match(state, '^(%d)(%d)(%d). (%d+) (%d+) (%S+)$')
    local mine, other = left and l or r, left and r or l
    local l_new, r_new = tonumber(left_epoch) > tonumber(l_epoch), tonumber(right_epoch) > tonumber(r_epoch)
    local is_new_here, is_new_there = left and l_new or not left and r_new, left and r_new or not left and l_new
    local stays = not is_new_here and not (is_new_there and (first == last or other == '1'))
    if mine == '1' and armed == '0' and stays and is_new() then
      END = PREFIX .. shard
      FAST_SIZE = redis.call('LLEN', END)
      FAR_BORDER = other == '0' and tonumber(position) or nil
    end
  end
end
