#!lua flags=no-writes
-- The prompts of a session, as far as a decision or an answer to a reader needs them.
--
-- KEYS: meta, prompts, openers, secrets, closed, due, log, ids, eids.
-- ARGV: scope ('all' open ones, those that are 'due', or 'named' ones alone), openers (1 or 0),
--   secrets (1 or 0), limit of what is due, then three lists, each behind its length: request ids,
--   ids of events that rewinds name, ids of events that may be known.
-- Returns {epoch, version, now, catalog, completion, sequence, offset, open prompts as counted, as
--   kept, records {id, value, …} of open prompts, of closed ones, openers {offset, value, …}, secrets
--   {id, value, …}, due {member, …}, offsets (0 unknown) of what rewinds name, known (1 or 0) …};
--   {'deleted'}; {now} for a session that does not exist.
--#include _now.lua
--#include _places.lua

local META, PROMPTS, OPENERS, SECRETS, CLOSED, DUE, LOG, IDS, EIDS = unpack(KEYS)
local scope, with_openers, with_secrets = ARGV[1], ARGV[2] == '1', ARGV[3] == '1'
local meta = redis.call('HMGET', META, 'epoch', 'deleted', 'prompts_version', 'catalog', 'completion',
  'sequence', 'offset', 'open_prompts')
if meta[2] then return {'deleted'} end
local now = clock()
if not meta[1] then return {now} end

local at = 5
local function list()
  local count = tonumber(ARGV[at])
  local found = {}
  for i = 1, count do found[i] = ARGV[at + i] end
  at = at + 1 + count
  return found
end
local names, targets, ids = list(), list(), list()

local due = {}
if scope == 'due' then
  local ended = redis.call('ZRANGEBYSCORE', DUE, '-inf', string.format('%.0f', now), 'LIMIT', 0,
    ARGV[4])
  for i = 1, #ended do
    local kind, name = string.match(ended[i], '^([pu]):(.*)$')
    if kind then
      due[#due + 1] = ended[i]
      names[#names + 1] = name
    elseif ended[i] == 'gone' then
      due[#due + 1] = 'gone'
      scope = 'all'
    end
  end
end

-- The fields of a hash that are there, as {field, value, …}.
local function values(key, fields)
  local found = {}
  for i = 1, #fields, 1000 do
    local last = math.min(i + 999, #fields)
    local got = redis.call('HMGET', key, unpack(fields, i, last))
    for j = i, last do
      local value = got[j - i + 1]
      if value then found[#found + 1], found[#found + 2] = fields[j], value end
    end
  end
  return found
end

local open = scope == 'all' and redis.call('HGETALL', PROMPTS) or values(PROMPTS, names)
local closed = values(CLOSED, names)
local openers = {}
if with_openers then
  local offsets, seen = {}, {}
  for i = 2, #open, 2 do
    local offset = string.match(open[i], '^%d+')
    if not seen[offset] then
      seen[offset] = true
      offsets[#offsets + 1] = offset
    end
  end
  openers = values(OPENERS, offsets)
end
local hidden = with_secrets and values(SECRETS, names) or {}

-- Only durable events that are kept can be rewound to.
local first = #targets > 0 and first_kept(LOG, tonumber(meta[6])) or 0
for i = 1, #targets do
  local score = tonumber(redis.call('ZSCORE', IDS, targets[i]) or 0)
  local entry = score >= first and score > 0 and log_entry(LOG, score)
  local _
  targets[i] = 0
  if entry then _, targets[i] = numbers(entry[1]) end
end
for i = 1, #ids do
  ids[i] = (redis.call('ZSCORE', IDS, ids[i]) or redis.call('ZSCORE', EIDS, ids[i])) and 1 or 0
end

return {meta[1], tonumber(meta[3] or 0), now, meta[4] or '', meta[5] or '', tonumber(meta[6]),
  tonumber(meta[7]), tonumber(meta[8] or 0), redis.call('HLEN', PROMPTS), open, closed, openers,
  hidden, due, targets, ids}
