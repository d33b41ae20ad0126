-- The unique keys of jobs. Each is a key of its own, which holds the id of the job that has it.
--
-- requires: shared/jobs

-- unique_away returns the error to reply with if a unique key may be on another node: the job that has it ends later then.
local function unique_away(key)
  if key ~= '' and is_away(QUEUE .. ':unique:' .. key) then
    return redis.error_reply('TRYAGAIN the unique key is moving to another node')
  end
end

-- release_unique lets the unique key of a job be used again, if the job has it.
local function release_unique(key, id)
  if key ~= '' and redis.pcall('GET', QUEUE .. ':unique:' .. key) == id then
    redis.call('DEL', QUEUE .. ':unique:' .. key)
  end
end
