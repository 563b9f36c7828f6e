-- On what terms a request is stored; `prompt_terms.py` spells them.

-- Reads the commands at ARGV[at] that are taken with events: by the event's index, where the words
-- after it stand.
local function sent_at(at)
  local sent = {}
  for i = at + 1, at + tonumber(ARGV[at]) * 7, 7 do sent[tonumber(ARGV[i])] = i + 1 end
  return sent
end

-- Reads the terms at ARGV[at].
local function terms_at(at)
  if ARGV[at] == 'q' then
    local names = {}
    for i = 1, tonumber(ARGV[at + 1]) do names[i] = ARGV[at + 1 + i] end
    return {quiet = names, sent = sent_at(at + 2 + #names)}
  end
  local terms = {
    epoch = ARGV[at + 1], version = tonumber(ARGV[at + 2]), before = tonumber(ARGV[at + 3]),
    flag = ARGV[at + 4], suppressed = {}, writes = {}, due = {}, commands = {},
  }
  at = at + 5
  local function each(width, take)
    local count = tonumber(ARGV[at])
    for i = 0, count - 1 do take(at + 1 + i * width) end
    at = at + 1 + count * width
  end
  each(2, function(i) terms.suppressed[tonumber(ARGV[i])] = ARGV[i + 1] end)
  each(11, function(i) terms.writes[#terms.writes + 1] = i end)
  each(2, function(i) terms.due[#terms.due + 1] = i end)
  each(5, function(i) terms.commands[#terms.commands + 1] = i end)
  terms.sent = sent_at(at)
  return terms
end

-- How many prompts more are open after these writes.
function opened_by(writes)
  local more = 0
  for _, i in ipairs(writes) do more = more + tonumber(ARGV[i + 4]) - tonumber(ARGV[i + 3]) end
  return more
end

--#include _placed.lua
