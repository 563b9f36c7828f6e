-- Prompts as they are written with the events of a request; `_prompt_terms.lua` reads what is written.
--#include _placed.lua

-- Writes one record, at ARGV[i]. `events` are those of the request by index.
local function write_prompt(keys, i, places, events)
  local name, was_open, is_open = ARGV[i], ARGV[i + 3] == '1', ARGV[i + 4] == '1'
  local opener, closer = placed(places, ARGV[i + 5]), placed(places, ARGV[i + 6])
  local record = opener .. ' ' .. ARGV[i + 7] .. ' ' .. closer .. '\n' .. ARGV[i + 8]
  local offset, sequence = string.match(opener, '^(%d+) (%d+)$')
  if is_open then
    redis.call('HSET', keys.prompts, name, record)
    if not was_open then
      -- One event may open many prompts and is kept once.
      if redis.call('HINCRBY', keys.asking, offset, 1) == 1 then
        local index = string.match(ARGV[i + 5], '^@(%d+)$')
        local event = index and events[tonumber(index)]
        if not event then
          local entry = log_entry(keys.log, tonumber(sequence))
          event = entry and {
            offset = offset, sequence = sequence, check = word(entry, 3), durable = true,
            id = word(entry, 1), type = word(entry, 2), body = body_of(entry),
          }
        end
        if event then redis.call('HSET', keys.openers, offset, last_value(event)) end
      end
      if ARGV[i + 9] ~= '' then redis.call('HSET', keys.secrets, name, ARGV[i + 9]) end
    end
    return
  end
  redis.call('HSET', keys.closed, name, record)
  redis.call('ZADD', keys.closed_at, ARGV[i + 10], name)
  if not was_open then return end
  redis.call('HDEL', keys.prompts, name)
  redis.call('HDEL', keys.secrets, name)
  if redis.call('HINCRBY', keys.asking, offset, -1) <= 0 then
    redis.call('HDEL', keys.asking, offset)
    redis.call('HDEL', keys.openers, offset)
  end
end

-- Forgets closed records that are too old or too many.
local function forget_prompts(keys, now, keep_ms, keep_count)
  local function drop(old)
    for first = 1, #old, 1000 do
      local last = math.min(first + 999, #old)
      redis.call('HDEL', keys.closed, unpack(old, first, last))
      redis.call('ZREM', keys.closed_at, unpack(old, first, last))
    end
  end
  drop(redis.call('ZRANGEBYSCORE', keys.closed_at, '-inf', string.format('%.0f', now - keep_ms)))
  local excess = redis.call('ZCARD', keys.closed_at) - keep_count
  if excess > 0 then drop(redis.call('ZRANGE', keys.closed_at, 0, excess - 1)) end
end

-- The live message about prompts, written at ARGV[i] for each i of `writes`: a line for each with its
-- name and state, unless that would be too much for the channel. Its reader is live_message.py.
local function prompt_message(epoch, version, open, writes, max)
  local lines, size = {string.format('p %s %.0f %.0f\n', epoch, version, open)}, 0
  for _, i in ipairs(writes) do
    local line = ARGV[i + 1] .. ' ' .. ARGV[i + 2] .. '\n'
    lines[#lines + 1], size = line, size + #line
  end
  return size > max and lines[1] or table.concat(lines)
end
