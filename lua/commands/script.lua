-- Runs a script of the user's, the source, which may push onto the list besides what else it does.
--
-- requires: shared/session shared/length shared/sweep shared/put shared/carve shared/take_in shared/reply
--
-- KEYS  1 meta, 2… the keys of the source. KEYS.source is the source, a function, see Around in lua.go
-- ARGV  1 to 3 see shared/operation.lua, 4 the capacity if a push creates the list, or '' if it must not, 5… the arguments
--       of the source
-- Reply an array: the reply of the source; or the text of an error with which it has ended, and 'push' if that is the error of
--       a push, else 'source'. An error instead of the array changes nothing
-- Cost  that of the source, O(values) for its pushes, and O(reply).
--
-- Safe because whatever may keep a push from being done is found before the source runs: a list that cannot be used, a shard
-- that is missing, a key of a wrong type, a slot that moves. Only OOM comes later, and what else makes a server refuse writes.
-- Redis raises it before the first write, so nothing has changed then either: the source has not written.
--
-- While the slot moves, the source does not run at all: not even its own keys could be created again once they have gone.
--
-- The list is opened anew for each push, since the source may have caught the error of the one before.

local SOURCE = KEYS.source
local CAP = tonumber(ARGV[4])

-- What pushes leave behind; in a table, since embedded servers lose what is assigned to a local after a pcall has failed:
--   list     the list as the last push has left it, to be swept
--   problem  the error of the last push that failed
local pushed = { problem = {} }

-- use_resp2 takes back what the source may have set: the helpers read the replies of RESP2.
local function use_resp2()
  if redis.setresp then
    redis.setresp(2)
  end
end

-- find_problem returns the error to reply with if a push could not be done.
local function find_problem()
  local list, problem = open('growing')
  if not list then
    return problem
  end
  local head, tail = measure(list)
  if not head then
    return tail
  end
  if is_empty(list) and not CAP then
    return redis.error_reply('SPREADLIST a script cannot create a spread list')
  end
  if is_away(PREFIX .. 'never') then
    return redis.error_reply('TRYAGAIN the list is moving to another node')
  end
  if list.armed then
    redis.call('LLEN', BELL) -- an error if it is no list, as those below
  end
  if list.shards then
    redis.call('LLEN', list.shards .. (list.first - 1))
    redis.call('LLEN', list.shards .. (list.last + 1))
  end
end

-- must returns what is not nil, and raises the error behind it otherwise.
local function must(result, problem, ...)
  if not result then
    error(problem.err, 0)
  end
  return result, problem, ...
end

-- push does what commands/push.lua does, and returns the length.
local function push(left, values)
  for _, value in ipairs(values) do
    if type(value) ~= 'string' and type(value) ~= 'number' then
      error('ERR a pushed value must be a string or a number', 0)
    end
  end
  use_resp2()
  local list = must(open('growing', false, pushed_at(left)))
  local head, tail, length = must(measure(list))
  local size = left and head or tail
  local room, plan = must(plan_put(list, left, size, #values, CAP, #tostring(values[1])))
  put_planned(list, left, room, plan, values, 1)
  if room == math.huge then
    carve_at_times(list, left, size, #values)
  end
  pushed.list = list
  return length + #values
end

-- pusher returns the function that the source calls to push at an end. If that cannot be done, it raises an error, with
-- nothing changed.
local function pusher(left)
  return function(...)
    local values, count = { ... }, select('#', ...)
    local done, result = false, 'ERR wrong number of arguments'
    if count > 0 then
      for i = 1, count do
        if values[i] == nil then
          values[i] = false -- which is refused
        end
      end
      done, result = pcall(push, left, values)
    end
    if not done then
      pushed.problem = result
      error(result, 0)
    end
    return result
  end
end

-- takes_writes tells whether the server takes a command that may grow the data set, as every server does from a script that has
-- written. It changes nothing.
local function takes_writes()
  return type(redis.pcall('RPUSHX', PREFIX .. 'never', '')) == 'number'
end

-- error_text returns the reply for an error that was raised.
local function error_text(raised)
  local text = type(raised) == 'table' and raised.err or raised
  text = type(text) == 'string' and text or 'the script has raised a ' .. type(raised)
  return string.find(text, '^%u[%u%d]* ') and text or 'ERR ' .. text
end

local done, failure = replay()
if done or failure then
  return done and read_reply(done, 1) or failure
end
failure = find_problem()
if failure then
  return failure
end

local keys, args = {}, {}
for i = 2, #KEYS do
  keys[i - 1] = KEYS[i]
end
for i = 5, #ARGV do
  args[i - 4] = ARGV[i]
end
local ok, reply = pcall(SOURCE, keys, args, pusher(true), pusher(false))
use_resp2()

local result, text = { reply }, nil
if reply == nil then
  result = { false }
elseif ok and type(reply) == 'table' and type(reply.err) == 'string' then
  result = { reply.err, 'source' } -- not as an error: go-redis would take some for those of the script
end
if ok and SEQUENCE then
  ok, text = pcall(reply_text, result)
  reply = text -- the error, if there is one
end
if ok then
  if pushed.list then
    sweep(pushed.list)
  else
    touch() -- perhaps it has written nothing
  end
  save_result(text)
  return result
end
failure = error_text(reply)
result = { failure, rawequal(reply, pushed.problem) and 'push' or 'source' }
if not takes_writes() then
  return redis.error_reply(failure)
elseif SEQUENCE then
  save_result(reply_text(result))
end
return result
