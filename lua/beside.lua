-- Stands in front of a script on lists that know their plain keys. These are the first arguments, one for each key of the script, and
-- not among its keys: while the slot moves, Redis refuses a script of whose declared keys only some are here. Before each key is
--   '+'  if the list stands in for the key, and watches it: the two are one list
--   '*'  the same, in a pipeline or transaction: the script must do all at once, whatever it takes
--   '^'  the same, for an operation that puts elements back where they were popped
--   '-'  if the list stands in for the key: an empty list beside a plain list is an error, and so is one beside another type
--   '_'  the same, in a pipeline or transaction
--   '?'  if an empty list beside a plain list is an error
-- A list without a plain key has ''.
if #KEYS == 1 then
  KEYS.word = table.remove(ARGV, 1) -- tables would take as long as a command
else
  KEYS.plain, KEYS.how = {}, {}
  for i = 1, #KEYS do
    local word = table.remove(ARGV, 1)
    KEYS.plain[i] = word ~= '' and string.sub(word, 2) or nil
    KEYS.how[i] = string.sub(word, 1, 1)
  end
end
