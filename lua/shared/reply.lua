-- Any reply of a script in the dedup record.
--
-- A reply is what Redis makes of a Lua value. The record holds the value, so that a repetition replies the same, whatever
-- the version of the server makes of it. The text of a value is one of
--   s<length>:<bytes>                               a string
--   n<number>;                                      a number, of which Redis replies the integer part
--   t                                               true, which Redis replies as 1
--   f                                               false, nil, and all others, which Redis replies as nil
--   a<items>:<fields>:<item>…<key><value>…          a table: its items up to the first nil, and its other fields, such as ok
--                                                   and err
--
-- requires: shared/keys

local DEEPEST = 100 -- tables within tables; embedded servers have room for some 200 calls
local NO_DIGITS = { inf = 1 / 0, ['-inf'] = -1 / 0, nan = 0 / 0 } -- tonumber does not read them everywhere

-- add_number adds the text of a number.
local function add_number(parts, number)
  local text = string.format('%.17g', number)
  for word, same in pairs(NO_DIGITS) do
    if number == same or number ~= number and same ~= same then
      text = word
    end
  end
  parts[#parts + 1] = 'n' .. text .. ';'
end

-- add_reply adds the text of a value. It raises an error for a table that is nested too deeply, or contains itself.
local function add_reply(parts, value, depth)
  local kind = type(value)
  if kind == 'string' then
    parts[#parts + 1] = 's' .. #value .. ':'
    parts[#parts + 1] = value
  elseif kind == 'number' then
    add_number(parts, value)
  elseif kind ~= 'table' then
    parts[#parts + 1] = value == true and 't' or 'f'
  elseif depth > DEEPEST then
    error('ERR the reply is nested too deeply', 0)
  else
    local items, fields = 0, {}
    while rawget(value, items + 1) ~= nil do
      items = items + 1
    end
    for key in pairs(value) do
      if type(key) ~= 'number' or key < 1 or key > items or key ~= math.floor(key) then
        fields[#fields + 1] = key
      end
    end
    parts[#parts + 1] = 'a' .. items .. ':' .. #fields .. ':'
    for i = 1, items do
      add_reply(parts, rawget(value, i), depth + 1)
    end
    for _, key in ipairs(fields) do
      add_reply(parts, key, depth + 1)
      add_reply(parts, rawget(value, key), depth + 1)
    end
  end
end

-- reply_text returns the text of a value.
local function reply_text(value)
  local parts = {}
  add_reply(parts, value, 1)
  return table.concat(parts)
end

-- read_reply returns the value whose text begins at a place, and the place behind it.
local function read_reply(text, at)
  local kind = string.sub(text, at, at)
  if kind == 's' then
    local colon = string.find(text, ':', at, true)
    local stop = colon + tonumber(string.sub(text, at + 1, colon - 1))
    return string.sub(text, colon + 1, stop), stop + 1
  elseif kind == 'n' then
    local stop = string.find(text, ';', at, true)
    local number = string.sub(text, at + 1, stop - 1)
    return NO_DIGITS[number] or tonumber(number), stop + 1
  elseif kind ~= 'a' then
    return kind == 't', at + 1
  end
  local value = {}
  local _, stop, items, fields = string.find(text, '^(%d+):(%d+):', at + 1)
  at = stop + 1
  for i = 1, tonumber(items) do
    value[i], at = read_reply(text, at)
  end
  for _ = 1, tonumber(fields) do
    local key
    key, at = read_reply(text, at)
    value[key], at = read_reply(text, at)
  end
  return value, at
end
