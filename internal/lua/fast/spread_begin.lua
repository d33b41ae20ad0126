-- Finds the shard at an end of a spread list, if its state stays as it is. shared/end_shard.lua explains the arguments and the
-- state, and fast/begin.lua why this is here.
--
-- requires: fast/record

local END, FULL -- the key of the shard, and the capacity
local FAR_BORDER -- the position of its border at the other side, or nil if it is all of the list
local STATE -- its state, as part.meta has it
local ARMED = false -- whether a consumer waits
if RECORD then
  local left = ARGV[4] == 'L'
  local generation, first, last, left_epoch, right_epoch, capacity, expiry =
    string.match(ARGV[5], '^(%d+) (%S+) (%S+) (%d+) (%d+) %S+ %S+ (%d+)(.*)$')
  local lasts = expiry == '' or string.byte(expiry, 2) == 48 -- '0'
  local shard = generation .. '.' .. (left and first or last)
  local state = redis.pcall('HGET', META, shard)
  if type(state) == 'string' then
    local open_left, open_right, armed, seen_left, seen_right, position =
      string.match(state, '^(%d)(%d)(%d). (%d+) (%d+) (%S+)$')
    local open, other = left and open_left or open_right, left and open_right or open_left
    local new_left = left_epoch ~= seen_left and tonumber(left_epoch) > tonumber(seen_left)
    local new_right = right_epoch ~= seen_right and tonumber(right_epoch) > tonumber(seen_right)
    local is_new_here, is_new_there = left and new_left or not left and new_right, left and new_right or not left and new_left
    local stays = not is_new_here and not (is_new_there and (first == last or other == '1'))
    if open == '1' and (armed == '0' or armed == '1') and lasts and stays and IS_NEW then
      END, FULL, STATE, ARMED = PREFIX .. shard, tonumber(capacity), state, armed == '1'
      FAR_BORDER = other == '0' and tonumber(position) or nil
    end
  end
end

-- arm writes whether a consumer waits.
local function arm(armed)
  redis.call('HSET', META, string.sub(END, #PREFIX + 1), string.sub(STATE, 1, 2) .. (armed and 1 or 0) .. string.sub(STATE, 4))
end
