-- Ranges of rewound sequences, kept as the text 'first-last-offset first-last-offset …', ascending
-- and apart from each other.

local function rewound_ranges(text)
  local ranges = {}
  for first, last, offset in string.gmatch(text or '', '(%d+)-(%d+)-(%d+)') do
    ranges[#ranges + 1] = {tonumber(first), tonumber(last), tonumber(offset)}
  end
  return ranges
end

-- The last sequence of the range that hides `sequence`, or nil. An ephemeral event counts with the
-- sequence of the durable one before it.
local function hidden_until(ranges, sequence)
  for i = 1, #ranges do
    if sequence < ranges[i][1] then return nil end
    if sequence <= ranges[i][2] then return ranges[i][2] end
  end
end

local function rewound_text(ranges, first_sequence)
  local kept = {}
  for i = 1, #ranges do
    if ranges[i][2] >= first_sequence then
      kept[#kept + 1] = string.format('%.0f-%.0f-%.0f', ranges[i][1], ranges[i][2], ranges[i][3])
    end
  end
  return table.concat(kept, ' ')
end

-- Adds the range hidden by a rewind; what it touches becomes one with it.
local function add_rewound(ranges, first, last, offset)
  while #ranges > 0 and ranges[#ranges][2] >= first - 1 do
    first = math.min(first, ranges[#ranges][1])
    ranges[#ranges] = nil
  end
  ranges[#ranges + 1] = {first, last, offset}
end
