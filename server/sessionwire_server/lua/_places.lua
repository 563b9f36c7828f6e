-- Where events stand. Offsets in the tail and sequences in the log have no holes and end at the
-- head, so the first one kept follows from the head and the length.

local function first_kept(key, newest)
  return newest - redis.call('XLEN', key) + 1
end

-- The two numbers of a stream id.
local function numbers(id)
  local a, b = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(a), tonumber(b)
end

-- An entry's fields are h (words about the event), b (its body, which the tail may lack) and in the
-- log k (members for filters). The words are id, type, check, received_ms; then in the log at_ms, in
-- the tail d(urable) or p(assing) and the message key or nothing.
local function word(entry, number)
  return string.match(entry[2][2], '^' .. string.rep('%S+ ', number - 1) .. '(%S*)')
end

local function body_of(entry)
  return entry[2][4]
end

-- The log's entry at a sequence, or nil where it is not kept.
local function log_entry(log, sequence)
  return redis.call('XRANGE', log, string.format('%.0f-0', sequence),
    string.format('%.0f', sequence), 'COUNT', 1)[1]
end

-- The sequence of the first log entry for which `is_after` holds, between `low` and `high`, or
-- high + 1; it must hold for all that follow such an entry.
local function first_in_log(log, low, high, is_after)
  while low <= high do
    local middle = math.floor((low + high) / 2)
    local entry = log_entry(log, middle)
    if entry and is_after(entry) then high = middle - 1 else low = middle + 1 end
  end
  return low
end

-- Sequence and check of the place just after the event at an offset: from the tail, else from the
-- newest log entry at or before it. The check is '' where that entry is not kept.
local function at_offset(log, tail, offset, head_sequence)
  local entry = redis.call('XRANGE', tail, string.format('%.0f-0', offset),
    string.format('%.0f', offset), 'COUNT', 1)[1]
  if entry then
    local _, sequence = numbers(entry[1])
    return sequence, word(entry, 3)
  end
  local after = first_in_log(log, first_kept(log, head_sequence), head_sequence, function(at)
    local _, its = numbers(at[1])
    return its > offset
  end)
  entry = log_entry(log, after - 1)
  return after - 1, entry and word(entry, 3) or ''
end
