#!lua
-- Stores the events of some requests to one session, numbers them, and publishes them as one
-- message. A request is stored whole or not at all; events already known take no number.
--
-- KEYS: all keys of the session (keys.py).
-- ARGV: live channel, fresh epoch, tail_max, tail_ttl_s, tail_inline_bytes, live_message_bytes,
--   log_max_events, log_max_age_ms, number of requests; then per request: catalog ('' unknown),
--   create (1 or 0), number of events, of words of its terms; then per event 14 words: flags, id,
--   type, check, head, tail, at_ms, members, last_key, message_key, closes, rewind_to, status, title;
--   then the terms (prompt_terms.py).
--   flags: d(urable) or p(assing), hole s(equence), p(arent) or -, m(inted) or -, steerable 1, 0 or -,
--   mark (prompt_terms.py).
-- Returns {epoch, received_ms, requests…}; a request is {'', sequence, offset, check, duplicates…},
--   the place before its first event and for each duplicate {index, durable, sequence, offset,
--   check}; a refused one is {'deleted'}, {'unknown'}, {'catalog', the session's catalog},
--   {'stale'}, if its terms do not hold, or for a command that is to be taken with it
--   {'reused', its id}, {'not_steerable'} or {'full', how many may wait}.
--#include _places.lua
--#include _rewound.lua

local WORDS = 14
local EPHEMERAL_IDS, EPHEMERAL_IDS_TTL_S = 10000, 900
-- A message that pauses for longer than the tail lives must still be known to have begun earlier.
local OPEN_MESSAGES, OPEN_MESSAGES_TTL_S = 512, 86400
local LAST_VALUES, LAST_VALUE_BYTES = 512, 262144
-- As `ledger.py` has it.
local TOMBSTONES, TOMBSTONE_MS = 1000, 604800000

local META, LOG, TAIL, IDS, EIDS, DELTAS, LAST, PROMPTS, CLOSED, COMMANDS, RECEIPTS = unpack(KEYS, 1, 11)
local DUE, FINISHED = KEYS[13], KEYS[14]
local channel, fresh_epoch = ARGV[1], ARGV[2]
local tail_max, tail_ttl_s, inline_bytes = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local message_bytes = tonumber(ARGV[6])
local max_events, max_age_ms = tonumber(ARGV[7]), tonumber(ARGV[8])

local meta = redis.call('HMGET', META, 'epoch', 'offset', 'sequence', 'last_id', 'check', 'catalog',
  'received_ms', 'first_ms', 'rewound', 'deleted', 'retired', 'expiry_ms')
local stored_epoch, deleted = meta[1], meta[10]
local epoch = stored_epoch or fresh_epoch
local offset, sequence = tonumber(meta[2] or 0), tonumber(meta[3] or 0)
local last_id, check = meta[4] or '', meta[5] or '0'
local catalog = meta[6] or ''
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local received = math.max(now, tonumber(meta[7] or 0))

-- What has to be looked up for the requests.
local requests, lookups, keys_of_messages = {}, {}, {}
local has_last_values, has_rewinds, has_terms = false, false, false
local at = 10
for r = 1, tonumber(ARGV[9]) do
  local request = {
    wanted = ARGV[at], create = ARGV[at + 1], count = tonumber(ARGV[at + 2]), first = at + 4,
  }
  local terms_words = tonumber(ARGV[at + 3])
  at = request.first + request.count * WORDS
  if terms_words > 0 then
    request.terms_at = at
    has_terms = true
    at = at + terms_words
  end
  if not deleted then
    for e = request.first, request.first + (request.count - 1) * WORDS, WORDS do
      if string.sub(ARGV[e], 3, 3) ~= 'm' then lookups[#lookups + 1] = ARGV[e + 1] end
      if ARGV[e + 11] ~= '' then
        lookups[#lookups + 1] = ARGV[e + 11]
        has_rewinds = true
      end
      if ARGV[e + 8] ~= '' then has_last_values = true end
      local key = ARGV[e + 9]
      if key ~= '' and keys_of_messages[key] == nil then
        keys_of_messages[key] = true
        keys_of_messages[#keys_of_messages + 1] = key
      end
    end
  end
  requests[r] = request
end
local counts = has_terms and redis.call('HMGET', META, 'prompts_version', 'open_prompts',
  'command_n', 'steerable') or {}
local version, open_prompts = tonumber(counts[1] or 0), tonumber(counts[2] or 0)
local command_n, takes_commands = tonumber(counts[3] or 0), counts[4] ~= '0'

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
-- Equal numbers: no event was ephemeral yet.
local ephemeral_ids = offset > sequence and answers('ZMSCORE', EIDS, lookups) or {}
local begun = answers('HMGET', DELTAS, keys_of_messages)
local open_count = #keys_of_messages > 0 and stored_epoch and redis.call('HLEN', DELTAS) or 0
local last_count = has_last_values and stored_epoch and redis.call('HLEN', LAST) or 0
local log_is_empty = not (stored_epoch and meta[8])
local first_sequence = log_is_empty and sequence + 1 or 1
if sequence > 0 and not log_is_empty
  and (has_rewinds or max_events > 0 and sequence >= max_events) then
  first_sequence = first_kept(LOG, sequence)
end
local ranges = rewound_ranges(stored_epoch and meta[9] or '')

local stored_sequence = sequence

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
    its_sequence, its_check = at_offset(LOG, TAIL, score, stored_sequence)
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
local status, title, steerable, rewinds

local function open_message(key)
  if begun[key] == nil and open_count < OPEN_MESSAGES then
    begun[key], opened[key], open_count = offset, offset, open_count + 1
  end
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

-- Most calls have no terms: what only those need is not even defined for the others, for in a script
-- that runs for microseconds each function costs some.
local exists, prompts_changed, more_open, to_send = stored_epoch, false, 0, {}
local terms_refusal, said_at, opened_by
if has_terms then
--#include _receipt.lua
--#include _prompt_terms.lua

for r = 1, #requests do
  if requests[r].terms_at then requests[r].terms = terms_at(requests[r].terms_at) end
end

local function is_stale(request)
  local terms = request.terms
  if prompts_changed then return true end
  if terms.quiet then
    if open_prompts > 0 then return true end
    for i = 1, stored_epoch and #terms.quiet or 0 do
      if redis.call('HEXISTS', CLOSED, terms.quiet[i]) == 1 then return true end
    end
    return false
  end
  if terms.epoch ~= (stored_epoch or '') or terms.version ~= version then return true end
  if terms.before > 0 and now >= terms.before then return true end
  if terms.flag == 'g' then
    local gone = redis.call('ZSCORE', DUE, 'gone')
    if not gone or tonumber(gone) > now then return true end
  end
  -- Records that are lost are mended before anything is decided without them.
  if stored_epoch and terms.flag ~= 'r' and redis.call('HLEN', PROMPTS) ~= open_prompts then
    return true
  end
  for e = request.first, request.first + (request.count - 1) * WORDS, WORDS do
    local mark, id = string.sub(ARGV[e], 5, 5), ARGV[e + 1]
    if mark == 'n' or mark == 'k' or mark == 's' then
      local is_known = (seen[id] or known(id, ARGV[e + 3])) ~= nil
      if is_known ~= (mark == 'k') then return true end
    end
  end
  return false
end

-- Why a command that is to be taken with a new event is not, nil if it is.
local function send_refusal(request)
  for index, i in pairs(request.terms.sent) do
    local e = request.first + (index - 1) * WORDS
    local id, most = ARGV[i], tonumber(ARGV[i + 5])
    local receipt = redis.call('HGET', RECEIPTS, id)
    if receipt and receipt_of(receipt).hash ~= ARGV[i + 1] then return {'reused', id} end
    if not (receipt or seen[ARGV[e + 1]] or known(ARGV[e + 1], ARGV[e + 3])) then
      if not takes_commands then return {'not_steerable'} end
      if most > 0 and redis.call('XLEN', COMMANDS) + #to_send >= most then return {'full', most} end
    end
  end
end

function terms_refusal(request)
  if is_stale(request) then return {'stale'} end
  return send_refusal(request)
end

-- What says the same as an event that is stored nowhere: {durable, sequence, offset, check}.
function said_at(places, word)
  local its_offset = tonumber(string.match(placed(places, word), '^%d+'))
  for i = #events, 1, -1 do
    local event = events[i]
    if event.offset == its_offset then
      return {event.durable and 1 or 0, event.sequence, event.offset, event.check}
    end
  end
  local its_sequence, its_check = at_offset(LOG, TAIL, its_offset, stored_sequence)
  local entry = log_entry(LOG, its_sequence)
  local _, entry_offset
  if entry then _, entry_offset = numbers(entry[1]) end
  return {entry_offset == its_offset and 1 or 0, its_sequence, its_offset, its_check}
end

end

-- Why a request is not taken, nil if it is.
local function refusal(request)
  if deleted then return {'deleted'} end
  if not exists and request.create ~= '1' then return {'unknown'} end
  if request.wanted ~= '' and catalog ~= '' and request.wanted ~= catalog then
    return {'catalog', catalog}
  end
  if request.terms then return terms_refusal(request) end
end

local decided, commands = {}, 0
for r = 1, #requests do
  local request = requests[r]
  local refused = refusal(request)
  if refused then
    reply[#reply + 1] = refused
  else
    exists = true
    if catalog == '' then catalog = request.wanted end
    local verdict = {'', sequence, offset, check}
    local terms = request.terms
    if terms and terms.writes then
      decided[#decided + 1] = request
      request.places, request.events = {}, {}
      if #terms.writes > 0 or #terms.due > 0 or terms.flag == 'r' then prompts_changed = true end
      more_open = more_open + opened_by(terms.writes)
      commands = commands + #terms.commands
      if terms.flag == 'r' then open_prompts = redis.call('HLEN', PROMPTS) end
    end
    for index = 1, request.count do
      local e = request.first + (index - 1) * WORDS
      local flags, id = ARGV[e], ARGV[e + 1]
      local mark = string.sub(flags, 5, 5)
      local earlier = mark == 's' and said_at(request.places, terms.suppressed[index])
        or seen[id] or known(id, ARGV[e + 3])
      if earlier then
        if mark ~= 's' then seen[id] = earlier end
        verdict[#verdict + 1] = {index, unpack(earlier)}
        if request.places then request.places[index] = {earlier[3], earlier[2]} end
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
        if terms and terms.sent[index] then to_send[#to_send + 1] = terms.sent[index] end
        seen[id] = {durable and 1 or 0, sequence, offset, check}
        if request.places then
          request.places[index], request.events[index] = {offset, sequence}, event
        end
        if event.message ~= '' then open_message(event.message) end
        if durable then
          -- The hub's own closers hang on the chain and are no part of it.
          if mark ~= 'h' then last_id = id end
          if ARGV[e + 11] ~= '' then rewind(ARGV[e + 11]) end
        end
        if ARGV[e + 10] ~= '' then end_messages(ARGV[e + 10]) end
        if ARGV[e + 8] ~= '' then last_values[ARGV[e + 8]] = event end
        if ARGV[e + 12] ~= '' then status = ARGV[e + 12] end
        if ARGV[e + 13] ~= '' then title = string.sub(ARGV[e + 13], 2) end
        local said = string.sub(flags, 4, 4)
        if said ~= '-' then steerable = said end
      end
    end
    reply[#reply + 1] = verdict
  end
end

if #events == 0 and not prompts_changed then return reply end

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
--#include _append.lua
--#include _live_message.lua
--#include _retention.lua

if not stored_epoch then redis.call('UNLINK', unpack(KEYS, 2)) end

local received_text = string.format('%.0f', received)
local changes = #events == 0 and {'v', 1, 'epoch', epoch} or {
  'v', 1, 'epoch', epoch, 'offset', offset, 'sequence', sequence, 'last_id', last_id,
  'check', check, 'catalog', catalog, 'received_ms', received, 'updated_ms', received,
}
local function change(name, value)
  changes[#changes + 1], changes[#changes + 2] = name, value
end
commands = commands + #to_send
if prompts_changed then
  version, open_prompts = version + 1, open_prompts + more_open
  change('prompts_version', version)
  change('open_prompts', open_prompts)
end
if commands > 0 then change('command_n', command_n + commands) end
local first_ms = tonumber(meta[8] or received)
if log_is_empty and sequence > sequence_before then change('first_ms', received) end
if not stored_epoch then
  change('created_ms', received)
  change('status', status or 'started')
elseif status then
  change('status', status)
end
if title then change('title', title) end
if steerable then change('steerable', steerable) end
if rewinds then change('rewound', rewound_text(ranges, first_sequence)) end
-- The tail's end is put off seldom enough to cost nothing.
local since = now - tonumber(meta[12] or 0)
local expires = #events > 0 and (since < 0 or since >= math.min(5000, tail_ttl_s * 100))
if expires then change('expiry_ms', now) end
redis.call('HSET', META, unpack(changes))
if meta[11] then
  redis.call('HDEL', META, 'retired')
  redis.call('PERSIST', META)
end

local new_ids, new_ephemeral_ids = {}, {}
for i = 1, #events do
  local event = events[i]
  local ids = event.durable and new_ids or new_ephemeral_ids
  ids[#ids + 1], ids[#ids + 2] = event.durable and event.sequence or event.offset, event.id
  if event.durable then
    append_to_log(LOG, event, received_text, ARGV[event.at + 6], ARGV[event.at + 7])
  end
  -- More than the tail holds would be trimmed at once; its offsets still run on without holes.
  if i > #events - tail_max then
    append_to_tail(TAIL, event, received_text, tail_max, inline_bytes)
  end
end
if expires then redis.call('EXPIRE', TAIL, tail_ttl_s) end
add_scores(IDS, new_ids)
if #new_ephemeral_ids > 0 then
  add_scores(EIDS, new_ephemeral_ids)
  redis.call('ZREMRANGEBYRANK', EIDS, 0, -EPHEMERAL_IDS - 1)
  redis.call('EXPIRE', EIDS, EPHEMERAL_IDS_TTL_S)
end

if all_ended then redis.call('UNLINK', DELTAS) end
for i = 1, #ended do redis.call('HDEL', DELTAS, ended[i]) end
if next(opened) then
  for key, began in pairs(opened) do redis.call('HSET', DELTAS, key, began) end
  redis.call('EXPIRE', DELTAS, math.max(OPEN_MESSAGES_TTL_S, tail_ttl_s))
end

for key, event in pairs(new_last_values) do
  if #event.body > LAST_VALUE_BYTES then
    redis.call('HDEL', LAST, key)
  else
    redis.call('HSET', LAST, key, last_value(event))
  end
end

if #events > 0 then
  retain(META, LOG, IDS, sequence, sequence - first_sequence + 1, first_ms, received, max_events,
    max_age_ms, 16)
end

local told = {}
if prompts_changed or #to_send > 0 then
--#include _receipt.lua
--#include _command_message.lua
--#include _prompts.lua
--#include _send.lua

local written, sent = {}, {}
-- Takes the command at ARGV[i].
local function take(i)
  command_n = command_n + 1
  sent[#sent + 1] = {ARGV[i], send(COMMANDS, RECEIPTS, DUE, FINISHED, command_n, ARGV[i],
    ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4]), now)}
end
for _, i in ipairs(to_send) do
  if redis.call('HEXISTS', RECEIPTS, ARGV[i]) == 0 then take(i) end
end
if prompts_changed then
  local keys = {
    log = LOG, prompts = PROMPTS, closed = CLOSED, openers = KEYS[15], asking = KEYS[16],
    secrets = KEYS[17], closed_at = KEYS[18],
  }
  for d = 1, #decided do
    local request = decided[d]
    local terms = request.terms
    for _, i in ipairs(terms.writes) do
      write_prompt(keys, i, request.places, request.events)
      written[#written + 1] = i
    end
    for _, i in ipairs(terms.due) do
      if ARGV[i + 1] == '' then redis.call('ZREM', DUE, ARGV[i])
      else redis.call('ZADD', DUE, ARGV[i + 1], ARGV[i]) end
    end
    for _, i in ipairs(terms.commands) do
      local id = ARGV[i]
      -- Nobody else's command may stand in an answer's way.
      local other = redis.call('HGET', RECEIPTS, id)
      if other then
        redis.call('XDEL', COMMANDS, string.format('%.0f-0', receipt_of(other).n))
        redis.call('ZREM', FINISHED, id)
      end
      take(i)
    end
  end
  forget_prompts(keys, now, TOMBSTONE_MS, TOMBSTONES)
end
if #written > 0 then
  told[1] = prompt_message(epoch, version, open_prompts, written, message_bytes)
end
if #sent > 0 then told[#told + 1] = command_message(epoch, sent) end
end

if #events > 0 then
  redis.call('SPUBLISH', channel, live_message(epoch, first_offset, sequence_before, check_before,
    received_text, events, message_bytes))
end
for i = 1, #told do redis.call('SPUBLISH', channel, told[i]) end
return reply
