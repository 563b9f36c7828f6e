-- The live message of a batch: a line about it, a line of six words an event, and the bodies, unless
-- that would be too much for the channel. Its reader is live_message.py.
local function live_message(epoch, first_offset, sequence_before, check_before, received, events, max)
  local words, bodies, size = {}, {}, 0
  for i = 1, #events do
    local event = events[i]
    words[i] = (event.durable and 'd ' or 'p ') .. #event.body .. ' ' .. event.id .. ' ' ..
      event.type .. ' ' .. event.check .. ' ' .. (event.message == '' and '-' or event.message)
    bodies[i] = event.body
    size = size + #words[i] + #event.body + 1
  end
  local head = 'e ' .. epoch .. string.format(' %.0f %.0f ', first_offset, sequence_before) ..
    check_before .. ' ' .. received .. ' ' .. #events
  if size > max then return head .. ' 0\n' .. table.concat(words, ' ') .. '\n' end
  return head .. ' 1\n' .. table.concat(words, ' ') .. '\n' .. table.concat(bodies)
end
