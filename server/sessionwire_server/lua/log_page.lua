#!lua flags=no-writes
-- Durable events by sequence, after `after` and up to `until`, rewound ones too.
--
-- KEYS: meta, log. ARGV: after, until ('+' for no end), limit, max_bytes, newest_first (1 or 0).
-- Returns {entries…}, at least one where there is one; {''} for a session that does not exist.
--#include _places.lua

local STEP = 16

local META, LOG = unpack(KEYS)
local low, high = string.format('%.0f-0', tonumber(ARGV[1]) + 1), ARGV[2]
local limit, max_bytes, newest_first = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'
local meta = redis.call('HMGET', META, 'epoch', 'deleted')
if not meta[1] or meta[2] then return {''} end

local page, bytes = {}, 0
while true do
  local step = math.min(STEP, limit - #page)
  local entries
  if newest_first then
    entries = redis.call('XREVRANGE', LOG, high, low, 'COUNT', step)
  else
    entries = redis.call('XRANGE', LOG, low, high, 'COUNT', step)
  end
  for i = 1, #entries do
    page[#page + 1] = entries[i]
    bytes = bytes + #body_of(entries[i])
    if bytes >= max_bytes then return page end
  end
  if #entries < step or #page >= limit then return page end
  local sequence = numbers(entries[#entries][1])
  if newest_first then
    high = string.format('%.0f', sequence - 1)
  else
    low = string.format('%.0f-0', sequence + 1)
  end
end
