#!lua flags=no-writes
-- The events after a place, for a stream: from the tail where it reaches that far, else the durable
-- ones from the log up to where the tail begins, with the ephemeral openers of prompts that are still
-- open. Rewound events are left out.
--
-- KEYS: meta, log, tail, openers. ARGV: sequence, offset, max_events, max_bytes.
-- Returns {epoch, sequence, offset, check, exact, more, trimmed, next sequence, next offset,
--   entries…}, the first four being the head and the flags 1 or 0; {} for a session that does not
--   exist. Entries of the tail have ids <offset>-<sequence>, those of the log <sequence>-<offset>;
--   an opener looks like one of the tail, but for its first field, which is p.
--#include _places.lua
--#include _rewound.lua

local STEP = 16

local META, LOG, TAIL, OPENERS = unpack(KEYS)
local from_sequence, from_offset = tonumber(ARGV[1]), tonumber(ARGV[2])
local max_events, max_bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local meta = redis.call('HMGET', META, 'epoch', 'sequence', 'offset', 'check', 'rewound', 'deleted',
  'open_prompts')
if not meta[1] or meta[6] then return {} end
local sequence, offset = tonumber(meta[2]), tonumber(meta[3])
local ranges = rewound_ranges(meta[5])
local first_sequence, first_offset = first_kept(LOG, sequence), first_kept(TAIL, offset)
local trimmed = first_sequence > from_sequence + 1 and sequence > from_sequence

local exact = from_offset + 1 >= first_offset or from_offset == offset
-- The place before the oldest event kept has its sequence for an offset (replay.py), which is none: an
-- ephemeral event up to there would have made the offset greater. Openers before it are still to come.
local is_floor = from_offset == from_sequence

local page, bytes, has_opener = {}, 0, false
-- The place after the last entry looked at: where a page that is cut short goes on.
local next_sequence, next_offset = from_sequence, from_offset

-- Takes an entry, unless it would break a limit.
local function take(entry)
  local size = #body_of(entry)
  local is_over = #page > 0 and (#page >= max_events or bytes + size > max_bytes)
  -- A page with an opener does not end where the next one would take its place for a floor.
  if is_over and not (has_opener and next_offset == next_sequence) then return false end
  page[#page + 1] = entry
  bytes = bytes + size
  return true
end

-- Gives a tail entry that stands there without its body the one from the log.
local function with_body(entry, its_sequence)
  if body_of(entry) then return entry end
  local durable = log_entry(LOG, its_sequence)
  if not durable then return nil end
  entry[2][3], entry[2][4] = 'b', body_of(durable)
  return entry
end

-- Both return true when nothing is left for them, false when a limit cut them short.
local function read_tail()
  while true do
    local entries = redis.call('XRANGE', TAIL, string.format('%.0f-0', next_offset + 1), '+',
      'COUNT', STEP)
    for i = 1, #entries do
      local its_offset, its_sequence = numbers(entries[i][1])
      if not hidden_until(ranges, its_sequence) then
        local entry = with_body(entries[i], its_sequence)
        if not entry then
          trimmed = true
        elseif not take(entry) then
          return false
        end
      end
      next_sequence, next_offset = its_sequence, its_offset
    end
    if #entries < STEP then return true end
  end
end

local kept, next_kept = {}, 1
if not exact and tonumber(meta[7] or 0) > 0 then
  local offsets = redis.call('HKEYS', OPENERS)
  for i = 1, #offsets do
    local its_offset = tonumber(offsets[i])
    if its_offset < first_offset and (is_floor or its_offset > from_offset) then
      kept[#kept + 1] = its_offset
    end
  end
  table.sort(kept)
end

-- Takes the kept openers before an offset; false when a limit cut them short.
local function take_openers(before)
  while kept[next_kept] and kept[next_kept] < before do
    local its_offset = string.format('%.0f', kept[next_kept])
    local its_sequence, check, kind, id, event_type, body = string.match(
      redis.call('HGET', OPENERS, its_offset), '^%d+ (%d+) (%S+) (%a) (%S+) (%S+)\n(.*)$')
    -- A durable one comes from the log, or is trimmed.
    if kind == 'p' and not hidden_until(ranges, tonumber(its_sequence)) then
      local words = id .. ' ' .. event_type .. ' ' .. check .. ' 0 p '
      if not take({its_offset .. '-' .. its_sequence, {'p', words, 'b', body}}) then return false end
      next_sequence = math.max(next_sequence, tonumber(its_sequence))
      next_offset, has_opener = kept[next_kept], true
    end
    next_kept = next_kept + 1
  end
  return true
end

local function read_log()
  next_sequence = math.max(next_sequence, first_sequence - 1)
  while true do
    local entries = redis.call('XRANGE', LOG, string.format('%.0f-0', next_sequence + 1), '+',
      'COUNT', STEP)
    for i = 1, #entries do
      local its_sequence, its_offset = numbers(entries[i][1])
      if its_offset >= first_offset then return take_openers(first_offset) end
      if not take_openers(its_offset) then return false end
      local last_hidden = hidden_until(ranges, its_sequence)
      if last_hidden then
        -- Jump over the range, but not into what belongs to the tail.
        next_sequence, next_offset = its_sequence, its_offset
        if last_hidden > its_sequence + STEP and i == #entries then
          local last = log_entry(LOG, last_hidden)
          local _, last_offset = numbers(last[1])
          if last_offset < first_offset then
            next_sequence, next_offset = last_hidden, last_offset
          end
        end
      elseif not take(entries[i]) then
        return false
      else
        next_sequence, next_offset = its_sequence, its_offset
      end
    end
    if #entries < STEP then return take_openers(first_offset) end
  end
end

local more
if exact then
  more = not read_tail()
else
  if not read_log() then
    more = true
  elseif first_offset <= offset then
    more = true
    next_offset = first_offset - 1
  else
    more = false
  end
end
if not more then next_sequence, next_offset = sequence, offset end
local reply = {meta[1], sequence, offset, meta[4], exact and 1 or 0, more and 1 or 0,
  trimmed and 1 or 0, next_sequence, next_offset}
for i = 1, #page do reply[9 + i] = page[i] end
return reply
