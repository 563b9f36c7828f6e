#!lua flags=no-writes
-- What the tail holds of what is still open: the messages being streamed whose first delta it has,
-- and the ephemeral openers of prompts.
--
-- KEYS: meta, tail, deltas, openers.
-- Returns {epoch, sequence, offset, check, tail entries of openers, tail entries…}: the deltas of all
--   messages, in order; {} for a session that does not exist.
--#include _places.lua
--#include _rewound.lua

local STEP = 64

local META, TAIL, DELTAS, OPENERS = unpack(KEYS)
local meta = redis.call('HMGET', META, 'epoch', 'sequence', 'offset', 'check', 'rewound', 'deleted',
  'open_prompts')
if not meta[1] or meta[6] then return {} end
local offset = tonumber(meta[3])
local ranges = rewound_ranges(meta[5])
local first_offset = first_kept(TAIL, offset)

local begun, from = {}, nil
local fields = redis.call('HGETALL', DELTAS)
for i = 1, #fields, 2 do
  local first = tonumber(fields[i + 1])
  if first >= first_offset then
    begun[fields[i]] = first
    from = math.min(from or first, first)
  end
end

local openers = {}
if tonumber(meta[7] or 0) > 0 then
  local offsets = redis.call('HKEYS', OPENERS)
  for i = 1, #offsets do
    if tonumber(offsets[i]) >= first_offset then
      local entry = redis.call('XRANGE', TAIL, offsets[i] .. '-0', offsets[i], 'COUNT', 1)[1]
      if entry and word(entry, 5) == 'p' then
        local _, its_sequence = numbers(entry[1])
        if not hidden_until(ranges, its_sequence) then openers[#openers + 1] = entry end
      end
    end
  end
end

local reply = {meta[1], tonumber(meta[2]), offset, meta[4], openers}
while from do
  local entries = redis.call('XRANGE', TAIL, string.format('%.0f-0', from), '+', 'COUNT', STEP)
  for i = 1, #entries do
    local its_offset, its_sequence = numbers(entries[i][1])
    local key = word(entries[i], 6)
    if begun[key] and its_offset >= begun[key]
      and not hidden_until(ranges, its_sequence) then
      reply[#reply + 1] = entries[i]
    end
    from = its_offset + 1
  end
  if #entries < STEP then break end
end
return reply
