#!lua
-- Stores the events of some requests to one session, numbers them, and publishes them as one
-- message. A request is stored whole or not at all; events already known take no number.
--
-- KEYS: all keys of the session (keys.py).
-- ARGV: live channel, fresh epoch, tail_max, tail_ttl_s, tail_inline_bytes, live_message_bytes,
--   log_max_events, log_max_age_ms, number of requests; then per request: catalog ('' unknown),
--   create (1 or 0), number of events; then per event 14 words: flags, id, type, check, head, tail,
--   at_ms, members, last_key, message_key, closes, rewind_to, status, title.
--   flags: d(urable) or p(assing), hole s(equence), p(arent) or -, m(inted) or -.
-- Returns {epoch, received_ms, requests…}; a request is {'', sequence, offset, check, duplicates…},
--   the place before its first event and for each duplicate {index, durable, sequence, offset,
--   check}; a refused one is {'deleted'}, {'unknown'} or {'catalog', the session's catalog}.
--#include _places.lua
--#include _rewound.lua

local WORDS = 14
local EPHEMERAL_IDS, EPHEMERAL_IDS_TTL_S = 10000, 900
-- A message that pauses for longer than the tail lives must still be known to have begun earlier.
local OPEN_MESSAGES, OPEN_MESSAGES_TTL_S = 512, 3600
local LAST_VALUES, LAST_VALUE_BYTES = 512, 262144

local META, LOG, TAIL, IDS, EIDS, DELTAS, LAST = unpack(KEYS, 1, 7)
local channel, fresh_epoch = ARGV[1], ARGV[2]
local tail_max, tail_ttl_s, inline_bytes = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local message_bytes = tonumber(ARGV[6])
local max_events, max_age_ms = tonumber(ARGV[7]), tonumber(ARGV[8])

local meta = redis.call('HMGET', META, 'epoch', 'offset', 'sequence', 'last_id', 'check', 'catalog',
  'received_ms', 'first_ms', 'rewound', 'deleted', 'retired')
local stored_epoch, deleted = meta[1], meta[10]
local epoch = stored_epoch or fresh_epoch
local offset, sequence = tonumber(meta[2] or 0), tonumber(meta[3] or 0)
local last_id, check = meta[4] or '', meta[5] or '0'
local catalog = meta[6] or ''
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local received = math.max(now, tonumber(meta[7] or 0))

-- Which requests are taken, and what has to be looked up for them.
local requests, lookups, keys_of_messages = {}, {}, {}
local at, exists = 10, stored_epoch
for r = 1, tonumber(ARGV[9]) do
  local wanted, create, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local request = {first = at + 3, count = count}
  if deleted then request.refused = {'deleted'}
  elseif not exists and create ~= '1' then request.refused = {'unknown'}
  elseif wanted ~= '' and catalog ~= '' and wanted ~= catalog then
    request.refused = {'catalog', catalog}
  else
    exists = true
    if catalog == '' then catalog = wanted end
    for e = request.first, request.first + (count - 1) * WORDS, WORDS do
      if string.sub(ARGV[e], 3, 3) ~= 'm' then lookups[#lookups + 1] = ARGV[e + 1] end
      if ARGV[e + 11] ~= '' then lookups[#lookups + 1] = ARGV[e + 11] end
      local key = ARGV[e + 9]
      if key ~= '' and keys_of_messages[key] == nil then
        keys_of_messages[key] = true
        keys_of_messages[#keys_of_messages + 1] = key
      end
    end
  end
  requests[r] = request
  at = at + 3 + count * WORDS
end

-- Runs a command that takes many members and answers each; returns the answers by member.
local function answers(command, key, members)
  local found = {}
  if not stored_epoch then return found end
  for i = 1, #members, 1000 do
    local last = math.min(i + 999, #members)
    local got = redis.call(command, key, unpack(members, i, last))
    for j = i, last do
      local value = got[j - i + 1]
      if value then found[members[j]] = tonumber(value) end
    end
  end
  return found
end

local durable_ids = answers('ZMSCORE', IDS, lookups)
local ephemeral_ids = answers('ZMSCORE', EIDS, lookups)
local begun = answers('HMGET', DELTAS, keys_of_messages)
local open_count = stored_epoch and redis.call('HLEN', DELTAS) or 0
local last_count = stored_epoch and redis.call('HLEN', LAST) or 0
local first_sequence = stored_epoch and first_kept(LOG, sequence) or 1
local log_is_empty = first_sequence > sequence
local ranges = rewound_ranges(stored_epoch and meta[9] or '')

-- Where an id was stored by an earlier call: {durable, sequence, offset, check}, or nil.
local function known(id, its_check)
  local score = durable_ids[id]
  if score then
    local entry = log_entry(LOG, score)
    local its_offset = score
    if entry then
      local _
      _, its_offset = numbers(entry[1])
    end
    return {1, score, its_offset, its_check}
  end
  score = ephemeral_ids[id]
  if score then
    local its_sequence
    its_sequence, its_check = at_offset(LOG, TAIL, score, sequence)
    return {0, its_sequence, score, its_check}
  end
end

local function filled(hole, head, tail)
  if hole == 's' then return head .. string.format('%.0f', sequence) .. tail end
  if hole == 'p' then
    if last_id == '' then return head .. 'null' .. tail end
    return head .. '"' .. string.gsub(last_id, '["\\]', '\\%0') .. '"' .. tail
  end
  return head
end

-- Numbers the events. `first_*` is the state before the call, for the live message.
local first_offset, sequence_before, check_before = offset + 1, sequence, check
local reply, events, seen = {epoch, received}, {}, {}
local opened, ended, all_ended, last_values = {}, {}, false, {}
local status, title, rewinds

local function open_message(key)
  if key == '' then return nil end
  if begun[key] == nil then
    if open_count >= OPEN_MESSAGES then return nil end
    begun[key], opened[key], open_count = offset, offset, open_count + 1
  end
  return begun[key]
end

local function end_messages(closes)
  for key in string.gmatch(closes, '%S+') do
    if key == '*' then
      begun, opened, ended, all_ended, open_count = {}, {}, {}, true, 0
    else
      begun[key], opened[key] = nil, nil
      ended[#ended + 1] = key
    end
  end
end

local function rewind(target_id)
  local target = seen[target_id]
  if target then
    target = target[1] == 1 and target[2] or nil
  else
    target = durable_ids[target_id]
  end
  if target and target >= first_sequence and target < sequence then
    add_rewound(ranges, target, sequence - 1, offset)
    rewinds = true
  end
end

for r = 1, #requests do
  local request = requests[r]
  if request.refused then
    reply[#reply + 1] = request.refused
  else
    local verdict = {'', sequence, offset, check}
    for index = 1, request.count do
      local e = request.first + (index - 1) * WORDS
      local flags, id = ARGV[e], ARGV[e + 1]
      local earlier = seen[id] or known(id, ARGV[e + 3])
      if earlier then
        seen[id] = earlier
        verdict[#verdict + 1] = {index, unpack(earlier)}
      else
        local durable = string.sub(flags, 1, 1) == 'd'
        offset = offset + 1
        if durable then sequence, check = sequence + 1, ARGV[e + 3] end
        local body = filled(string.sub(flags, 2, 2), ARGV[e + 4], ARGV[e + 5])
        local event = {
          at = e, durable = durable, offset = offset, sequence = sequence, check = check,
          id = id, type = ARGV[e + 2], body = body, message = ARGV[e + 9],
        }
        events[#events + 1] = event
        seen[id] = {durable and 1 or 0, sequence, offset, check}
        event.begun = open_message(event.message)
        if durable then
          last_id = id
          if ARGV[e + 11] ~= '' then rewind(ARGV[e + 11]) end
        end
        if ARGV[e + 10] ~= '' then end_messages(ARGV[e + 10]) end
        if ARGV[e + 8] ~= '' then last_values[ARGV[e + 8]] = event end
        if ARGV[e + 12] ~= '' then status = ARGV[e + 12] end
        if ARGV[e + 13] ~= '' then title = string.sub(ARGV[e + 13], 2) end
      end
    end
    reply[#reply + 1] = verdict
  end
end

if #events == 0 then return reply end

local new_last_values = {}
for key, event in pairs(last_values) do
  if last_count >= LAST_VALUES and redis.call('HEXISTS', LAST, key) == 0 then
    new_last_values[key] = nil
  else
    new_last_values[key] = event
    last_count = last_count + 1
  end
end

-- WRITES. From here on nothing is checked and nothing can be refused. The numbers go first: should
-- the server die of a defect in between, numbers are skipped but never given twice.
--#include _retention.lua

if not stored_epoch then redis.call('UNLINK', unpack(KEYS, 2)) end

local changes = {
  'v', 1, 'epoch', epoch, 'offset', offset, 'sequence', sequence, 'last_id', last_id,
  'check', check, 'catalog', catalog, 'received_ms', received, 'updated_ms', received,
}
local function change(name, value)
  changes[#changes + 1], changes[#changes + 2] = name, value
end
local first_ms = tonumber(meta[8] or received)
if log_is_empty then
  first_ms = received
  change('first_ms', received)
end
if not stored_epoch then
  change('created_ms', received)
  change('status', status or 'started')
elseif status then
  change('status', status)
end
if title then change('title', title) end
if rewinds then change('rewound', rewound_text(ranges, first_sequence)) end
redis.call('HSET', META, unpack(changes))
if meta[11] then
  redis.call('HDEL', META, 'retired')
  redis.call('PERSIST', META)
end

local ephemeral = false
for i = 1, #events do
  local event = events[i]
  local at_ms, members = ARGV[event.at + 6], ARGV[event.at + 7]
  if event.durable then
    local fields = {'i', event.id, 't', event.type, 'c', event.check, 'r', received}
    if at_ms ~= '0' then fields[#fields + 1], fields[#fields + 2] = 's', at_ms end
    if members ~= '' then fields[#fields + 1], fields[#fields + 2] = 'k', members end
    fields[#fields + 1], fields[#fields + 2] = 'b', event.body
    redis.call('XADD', LOG, event.sequence .. '-' .. event.offset, unpack(fields))
    redis.call('ZADD', IDS, event.sequence, event.id)
  else
    redis.call('ZADD', EIDS, event.offset, event.id)
    ephemeral = true
  end
  -- More than the tail holds would be trimmed at once; its offsets still run on without holes.
  if i > #events - tail_max then
    local fields = {'i', event.id, 't', event.type, 'c', event.check, 'r', received}
    if not event.durable then fields[#fields + 1], fields[#fields + 2] = 'e', 1 end
    if event.message ~= '' then fields[#fields + 1], fields[#fields + 2] = 'm', event.message end
    if event.begun then fields[#fields + 1], fields[#fields + 2] = 'f', event.begun end
    if not event.durable or #event.body <= inline_bytes then
      fields[#fields + 1], fields[#fields + 2] = 'b', event.body
    end
    redis.call('XADD', TAIL, event.offset .. '-' .. event.sequence, unpack(fields))
  end
end
redis.call('XTRIM', TAIL, 'MAXLEN', '=', tail_max)
redis.call('EXPIRE', TAIL, tail_ttl_s)
if ephemeral then
  redis.call('ZREMRANGEBYRANK', EIDS, 0, -EPHEMERAL_IDS - 1)
  redis.call('EXPIRE', EIDS, EPHEMERAL_IDS_TTL_S)
end

if all_ended then redis.call('UNLINK', DELTAS) end
for i = 1, #ended do redis.call('HDEL', DELTAS, ended[i]) end
for key, began in pairs(opened) do redis.call('HSET', DELTAS, key, began) end
redis.call('EXPIRE', DELTAS, math.max(OPEN_MESSAGES_TTL_S, tail_ttl_s))

for key, event in pairs(new_last_values) do
  if #event.body > LAST_VALUE_BYTES then
    redis.call('HDEL', LAST, key)
  else
    redis.call('HSET', LAST, key, event.offset .. ' ' .. event.sequence .. ' ' .. event.check ..
      ' ' .. (event.durable and 'd' or 'p') .. ' ' .. event.id .. ' ' .. event.type .. '\n' ..
      event.body)
  end
end

retain(META, LOG, IDS, sequence, first_ms, received, max_events, max_age_ms, 16)

local words, bodies, size = {}, {}, 0
for i = 1, #events do
  local event = events[i]
  words[i] = (event.durable and 'd ' or 'p ') .. #event.body .. ' ' .. event.id .. ' ' ..
    event.type .. ' ' .. event.check .. ' ' .. (event.message == '' and '-' or event.message)
  bodies[i] = event.body
  size = size + #words[i] + #event.body + 1
end
local inline = size <= message_bytes
redis.call('SPUBLISH', channel, table.concat({
  'e ' .. epoch .. ' ' .. string.format('%.0f %.0f ', first_offset, sequence_before) ..
    check_before .. ' ' .. string.format('%.0f ', received) .. #events .. ' ' ..
    (inline and '1' or '0'),
  table.concat(words, ' '),
  inline and table.concat(bodies) or '',
}, '\n'))
return reply
