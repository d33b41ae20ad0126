-- The keys of a queue, and the envelopes of its jobs; see shared/jobs.lua.
--
-- An envelope is '\255J', a byte of flags, the id in 16 bytes, how many attempts have ended in 2, what the flags say, and the
-- payload: with 1 the hash of the unique key in 40 bytes, with 2 the last error behind its length in 2. Any other element of
-- the list is the payload of a job without an id.
--
-- requires: shared/keys

local QUEUE, TIMES, JOBS -- keys, see shared/jobs.lua

local TAKE_BYTES = 4194304 -- of the jobs that one script leases, about
local MEMBER = 22 -- the size of a member of TIMES
local NO_LEASE = '\0\0\0\0\0\0' -- what a delayed job has behind its id

-- longest_of returns the size of the longest of some of the elements that count pops would take from an end of a shard.
local function longest_of(shard, left, count)
  local longest = 0
  count = math.min(count, redis.call('LLEN', shard))
  local looks = math.min(count, 4)
  for i = 0, looks - 1 do
    local at = looks > 1 and math.floor(i * (count - 1) / (looks - 1)) or 0
    local element = redis.call('LINDEX', shard, left and at or -1 - at)
    longest = math.max(longest, element and #element or 0)
  end
  return longest
end

-- plain_members returns the members in ARGV[1], see commands/queue_settle.lua.
local function plain_members()
  local members, packed = {}, ARGV[1]
  for from = 1, #packed, MEMBER do
    members[#members + 1] = string.sub(packed, from, from + MEMBER - 1)
  end
  return members
end

-- two_bytes is a number in two bytes.
local function two_bytes(number)
  local high = math.floor(number / 256)
  return string.char(high, number - high * 256)
end

local ENVELOPE = '^\255J[%z\1-\3]......[@-Op-\127].[\128-\191]' -- with a UUID of version 4 or 7

local COMMON = '^\255J%z(......[@-Op-\127].[\128-\191].......)..' -- without flags

-- read_envelope returns the id, the attempt, the unique key, the payload and the last error of an envelope, or nil if it is
-- none. The key and the error are '' if there is none.
local function read_envelope(envelope)
  if #envelope < 21 or not string.find(envelope, ENVELOPE) then
    return nil
  end
  local flags, attempt = string.byte(envelope, 3), string.byte(envelope, 20) * 256 + string.byte(envelope, 21)
  local from, unique, failure_text = 22, '', ''
  if flags % 2 == 1 then
    unique, from = string.sub(envelope, from, from + 39), from + 40
  end
  if flags > 1 then
    local high, low = string.byte(envelope, from, from + 1)
    if not low then
      return nil
    end
    local size = high * 256 + low
    failure_text, from = string.sub(envelope, from + 2, from + 1 + size), from + 2 + size
  end
  if from > #envelope + 1 then
    return nil
  end
  return string.sub(envelope, 4, 19), attempt, unique, string.sub(envelope, from), failure_text
end

-- envelope_of returns the envelope of a job.
local function envelope_of(id, attempt, unique, payload, failure_text)
  local flags = (unique ~= '' and 1 or 0) + (failure_text ~= '' and 2 or 0)
  failure_text = failure_text ~= '' and two_bytes(#failure_text) .. failure_text or ''
  return '\255J' .. string.char(flags) .. id .. two_bytes(attempt) .. unique .. failure_text .. payload
end

-- waited returns the id and the envelope of a job that has waited in the list. It is the nth that this take leases, from 0. A
-- job that has failed was moved there from the dead, and begins anew. What is no envelope gets an id of the sixteen random
-- bytes.
local function waited(element, random, nth)
  local id = string.match(element, COMMON)
  if id then
    return id, element
  end
  local _, unique, payload, failure_text
  id, _, unique, payload, failure_text = read_envelope(element)
  if not id then
    id = string.sub(random, 1, 14) .. two_bytes(nth)
    return id, envelope_of(id, 0, '', element, '')
  elseif failure_text ~= '' then
    return id, envelope_of(id, 0, unique, payload, '')
  end
  return id, element
end

-- In each call:

QUEUE = PREFIX .. 'queue'
TIMES = QUEUE .. ':times'
JOBS = QUEUE .. ':jobs'
