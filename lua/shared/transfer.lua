-- What RENAME and COPY have in common: commands/rename.lua and commands/copy.lua.
--
-- KEYS  see shared/lists.lua: the list is the first, the list of the other name the second
-- ARGV  1 to 4 see shared/lists.lua, 5 'replace' to replace a list of that name, or ''
-- Reply 0 if there is no list to copy, or one of the other name that must stay; 1 if all is done; 2 if expire.lua is to
--       continue with the list of the other name. It is an error if there is no list to rename
--
-- Where there is no list at either of the plain keys, if there are such keys, Redis's own command is carried out on them.
--
-- The shards of the replaced list are left to a sweep. Shards keep their TTLs, and so does meta. Consumers that wait for the
-- renamed list go on waiting: a dummy in its bell is for a pop that arms it again.
--
-- A list that stays at its plain key gets what the other has there, and gives what it has. To be renamed over a long list, it
-- becomes one. It cannot get a long list.
--
-- That a list has been restored belongs to the name, and stays: see commands/restore.lua. What goes there becomes the plain
-- key, and what comes from there is a long shard.
--
-- Both are safe because they read every key before the first write. That is a RENAME, which OOM allows, or a COPY, which OOM
-- refuses with nothing changed.
--
-- requires: shared/session shared/identity shared/sweep shared/lists shared/take_in shared/shrink

-- open_both returns the two lists, and whether the second must ring then; or nil and the reply, if there is nothing to do with
-- them. The second is selected.
local open_both
do
  -- take_plain makes the plain list at a plain key a part of the list. It returns the error if it cannot. copies tells whether
  -- the command is COPY.
  local function take_plain(list, key, copies)
    if list.restored and is_empty(list) and is_away(list.restored) then
      return redis.error_reply('TRYAGAIN the list is moving')
    end
    local size = not list.restored and not rung_by(key) and redis.pcall('LLEN', key)
    if type(size) ~= 'number' or size == 0 then
      return nil
    end
    local problem = copies and no_memory()
    if not problem and is_empty(list) then
      problem = take_over(list, key, 0)
    elseif not problem then
      problem = take_in(list, key, size, list.join > 0 and list.join or pushed_at(false))
      if not problem and redis.call('LLEN', key) > 0 then
        problem = redis.error_reply('TRYAGAIN the key is moving to another node')
      end
    end
    return problem or nil
  end

  -- at_plain_keys returns the reply, or the error, if Redis or a plain key decides what becomes of the command.
  local function at_plain_keys(from, to, plain, copies, replaces)
    local source, target = is_empty(from), is_empty(to)
    if source and target then
      if not copies and not replaces and redis.call('EXISTS', plain[1], plain[2]) == 2 then
        return 0
      end
      local words = { copies and 'COPY' or 'RENAME', plain[1], plain[2] }
      words[4] = copies and replaces and 'REPLACE' or nil
      local reply = redis.pcall(unpack(words))
      return type(reply) == 'table' and not reply.err and 1 or reply
    end
    PLAIN = source and plain[1] or plain[2]
    if source == target or redis.call('EXISTS', PLAIN) == 0 then
      return nil
    end
    if not replaces then
      return 0
    end
    local _, reason = with_plain(no_list(), copies and 'growing')
    return reason
  end

  -- open_at opens the i-th list, whose plain key matters only if it is empty.
  local function open_at(i, copies)
    use(i)
    PLAIN = nil
    return open(copies and 'growing', true)
  end

  function open_both(copies)
    local plain, stays, replaces = {}, {}, ARGV[5] == 'replace'
    for i, word in ipairs(KEYS.words) do
      plain[i], stays[i] = string.sub(word, 2), string.byte(word, 1) == 46 -- '.', see shared/keys.lua
    end
    use(1)
    local done, failure = replay()
    if done or failure then
      return nil, tonumber(done) or failure or { ok = done }
    end
    local from, to, problem
    from, problem = open_at(1, copies)
    if problem then
      return nil, problem
    end
    to, problem = open_at(2, copies)
    if problem then
      return nil, problem
    end
    if not is_empty(from) or not is_empty(to) or from.stale or to.stale then
      use(1)
      problem = (not stays[1] or not copies and replaces and not is_empty(to)) and take_plain(from, plain[1], copies)
      use(2)
      problem = problem or not stays[2] and take_plain(to, plain[2], copies)
      PLAIN = nil
      if problem then
        return nil, problem
      end
    end
    local verdict = at_plain_keys(from, to, plain, copies, replaces)
    if verdict then
      if verdict == 1 and is_empty(from) and to.armed and bell_is_here() then
        to.armed = false
        save_list(to)
        ring()
      end
      if type(verdict) == 'number' then
        save_result(verdict)
      elseif verdict.err == 'ERR no such key' then
        verdict = save_error(verdict.err)
      end
      return nil, verdict
    end
    local gives = is_empty(from) and replaces and redis.call('EXISTS', plain[1]) == 1
    if stays[2] and not is_empty(from) or stays[1] and gives then
      return nil, redis.error_reply('STAYSPLAIN ')
    end
    local taken = not is_empty(to)
    if is_empty(from) or taken and not replaces then
      touch()
      if not copies and is_empty(from) then
        return nil, save_error('ERR no such key')
      end
      save_result(0)
      return nil, 0
    end
    local must_ring = to.armed and bell_is_here()
    if taken and not to.restored then
      redis.call('LLEN', to.shards .. to.first)
      redis.call('LLEN', to.shards .. to.last)
      detach(to)
    end
    return from, to, must_ring
  end
end

-- keep_expiry gives the plain key of a restored list the expiry of what has come there, if that has one; as Redis's command
-- does if it came from a plain key.
local function keep_expiry(to, expires, was_plain)
  if expires then
    redis.call('PEXPIREAT', to.restored, expires)
  elseif not was_plain then
    redis.call('PERSIST', to.restored)
  end
end

-- complete completes what has come to the second list. It returns the reply, which the caller saves.
local function complete(to, must_ring)
  if must_ring then
    ring()
  end
  sweep(to)
  if to.stale then
    redis.call('PERSIST', META) -- until all is swept
  end
  local verdict = (to.stale or redis.call('HGET', META, 'walk')) and 2 or 1
  PLAIN = string.sub(KEYS.words[2], 2)
  shrink(to)
  return verdict
end
