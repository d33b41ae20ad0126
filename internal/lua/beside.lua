-- Stands in front of a script on lists that stand in for plain keys. These are the first arguments, one for each key of the script,
-- or '' for none, and not among its keys: while the slot moves, Redis refuses a script of whose declared keys only some are here, and a list and
-- its plain key never exist at once.
KEYS.plain = {}
for i = 1, #KEYS do
  local key = table.remove(ARGV, 1)
  KEYS.plain[i] = key ~= '' and key or nil
end
