-- Finds the shard at an end of a spread list, if its state stays as it is. shared/end_shard.lua explains the arguments and the
-- state, and fast/begin.lua why this is here, and why it defines no functions.
--
-- requires: shared/is_new

local LEFT
local END, FULL -- the key of the shard, and the capacity, as a text
local FAR_BORDER -- the position of its border at the other side, or nil if it is all of the list
local STATE -- its state, as part.meta has it
local ARMED -- whether a consumer waits

-- In each call:

LEFT = ARGV[4] == 'L'
END, FULL, FAR_BORDER, STATE, ARMED = nil, nil, nil, nil, false
if RECORD and IS_NEW then
  local generation, first, last, left_epoch, right_epoch, capacity, expiry =
    string.match(ARGV[5], '^(%d+) (%S+) (%S+) (%d+) (%d+) %S+ %S+ (%d+)(.*)$')
  local shard = generation .. '.' .. (LEFT and first or last)
  local state = redis.pcall('HGET', META, shard)
  if type(state) == 'string' and (expiry == '' or string.byte(expiry, 2) == 48) then -- '0': it lasts
    local open_left, open_right, armed, seen_left, seen_right, position =
      string.match(state, '^(%d)(%d)(%d). (%d+) (%d+) (%S+)$')
    local open, other = LEFT and open_left or open_right, LEFT and open_right or open_left
    local new_left = left_epoch ~= seen_left and tonumber(left_epoch) > tonumber(seen_left)
    local new_right = right_epoch ~= seen_right and tonumber(right_epoch) > tonumber(seen_right)
    local stays = not (new_left and (LEFT or first == last or other == '1'))
      and not (new_right and (not LEFT or first == last or other == '1'))
    if stays and open == '1' and (armed == '0' or armed == '1') then
      END, FULL, STATE, ARMED = PREFIX .. shard, capacity, state, armed == '1'
      FAR_BORDER = other == '0' and position or nil
    end
  end
end
