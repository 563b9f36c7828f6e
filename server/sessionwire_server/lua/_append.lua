-- How an event is written down; `_places.lua` says what stands where.

local function append_to_log(log, event, received, at_ms, members)
  local id = event.sequence .. '-' .. event.offset
  local words = event.id .. ' ' .. event.type .. ' ' .. event.check .. ' ' .. received .. ' ' .. at_ms
  if members == '' then
    redis.call('XADD', log, id, 'h', words, 'b', event.body)
  else
    redis.call('XADD', log, id, 'h', words, 'b', event.body, 'k', members)
  end
end

local function append_to_tail(tail, event, received, max, inline_bytes)
  local id = event.offset .. '-' .. event.sequence
  local words = event.id .. ' ' .. event.type .. ' ' .. event.check .. ' ' .. received ..
    (event.durable and ' d ' or ' p ') .. event.message
  if event.durable and #event.body > inline_bytes then
    redis.call('XADD', tail, 'MAXLEN', '=', max, id, 'h', words)
  else
    redis.call('XADD', tail, 'MAXLEN', '=', max, id, 'h', words, 'b', event.body)
  end
end

local function last_value(event)
  return event.offset .. ' ' .. event.sequence .. ' ' .. event.check ..
    (event.durable and ' d ' or ' p ') .. event.id .. ' ' .. event.type .. '\n' .. event.body
end

-- Adds {score, member, score, member, …}.
local function add_scores(key, scored)
  for i = 1, #scored, 1000 do
    redis.call('ZADD', key, unpack(scored, i, math.min(i + 999, #scored)))
  end
end
