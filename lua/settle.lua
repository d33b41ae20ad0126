-- Makes sure that a lane's last operation, whose outcome nobody waits for any more, can no longer be carried out.
--
-- KEYS  1 meta
-- ARGV  1 to 3 see lane.lua
-- Reply the operation's result if it has been done, else nil
-- Cost  O(1).

local done, stale_operation = recall()
if done or stale_operation then
  return done or stale_operation
end
touch()
remember('')
return false
