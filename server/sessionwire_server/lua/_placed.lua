-- Spells a place: 'offset sequence', or '@index' for that of an event of the request.
local function placed(places, word)
  local index = string.match(word, '^@(%d+)$')
  if not index then return word end
  local at = places[tonumber(index)]
  return string.format('%.0f %.0f', at[1], at[2])
end
