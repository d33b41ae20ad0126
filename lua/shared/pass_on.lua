-- Hands a wake-up on, for consumers that wait on several lists.
--
-- requires: shared/list shared/bell shared/wake

-- pass_on hands a wake-up to the next consumer: it rings if the list has elements, and arms it if not. The bell is here.
local function pass_on(list)
  if is_empty(list) then
    arm(list)
  else
    redis.call('PEXPIRE', BELL, IDLE_MS) -- OOM allows this, and then what follows
    ring()
  end
end
