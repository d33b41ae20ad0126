-- Leases the jobs that commands/queue_take.lua takes.
--
-- requires: shared/jobs

local LEASE -- what is behind the ids of the members

-- begin_again returns the reply of a take that has been done. Its leases begin now.
local function begin_again(head, saved)
  saved = saved and saved[1] or LEASE
  local lease = string.sub(saved, 1, #LEASE)
  local reply = { tonumber(head), 2, lease }
  local now = clock()
  for from = #LEASE + 1, #saved, 16 do
    local id = string.sub(saved, from, from + 15)
    local envelope = redis.call('HGET', JOBS, id)
    if envelope and tonumber(redis.call('ZSCORE', TIMES, id .. lease) or 0) < 0 then
      redis.call('ZADD', TIMES, string.format('-%.0f', now + ARGV[9]), id .. lease)
      reply[#reply + 1] = envelope
    end
  end
  return reply
end

-- lease_jobs leases what is planned, and what was popped: arrays of elements.
local function lease_jobs(take, popped)
  local envelopes, ids, fields, scores = {}, {}, {}, {}
  local ends = string.format('-%.0f', take.now + take.lease)
  local function add(id, envelope)
    local i = #ids + 1
    ids[i] = id
    envelopes[i] = envelope
    fields[2 * i - 1], fields[2 * i] = id, envelope
    scores[2 * i - 1], scores[2 * i] = ends, id .. LEASE
  end
  if take.total == 0 then
    redis.call('HDEL', QUEUE, 'never') -- changes nothing, and OOM allows it
  end
  if take.released then
    redis.call('DEL', ARGV[7])
  end
  for _, envelope in ipairs(take.old_texts) do
    local id, attempt, unique, payload, failure_text = read_envelope(envelope)
    add(id, envelope_of(id, math.min(attempt + 1, 65535), unique, payload, failure_text))
  end
  for _, envelope in ipairs(take.due_texts) do
    add(string.sub(envelope, 4, 19), envelope)
  end
  for _, shard in ipairs(popped) do
    for _, element in ipairs(shard) do
      add(waited(element, ARGV[13], #ids))
    end
  end
  if take.taken > 0 then
    redis.call('HSET', JOBS, unpack(fields))
    redis.call('ZADD', TIMES, unpack(scores))
  end
  for _, members in ipairs({ take.lost, take.lost_due, take.old, take.due }) do
    if #members > 0 then
      redis.call('ZREM', TIMES, unpack(members))
    end
  end
  take.ids, take.envelopes = ids, envelopes
end

-- save_bucket writes the state of the bucket.
local function save_bucket(take)
  if take.interval > 0 and (take.taken > 0 or take.counts_anew) then
    redis.call('HSET', QUEUE, 'tat', string.format('%.3f', take.tat))
    local pace = string.format('%.17g %.0f', take.interval, take.taken > 0 and take.burst or take.most)
    if take.pace ~= pace then
      redis.call('HSET', QUEUE, 'pace', pace)
    end
  end
end

-- In each call:

LEASE = string.sub(ARGV[13], 1, 6)
