#!lua flags=no-writes
-- The place before the first durable event received later than a time; the head if none is.
--
-- KEYS: meta, log. ARGV: Unix milliseconds.
-- Returns {sequence, offset}; {} for a session that does not exist.
--#include _places.lua

local META, LOG = unpack(KEYS)
local time = tonumber(ARGV[1])
local meta = redis.call('HMGET', META, 'epoch', 'sequence', 'offset', 'deleted')
if not meta[1] or meta[4] then return {} end
local sequence, offset = tonumber(meta[2]), tonumber(meta[3])
local first = first_in_log(LOG, first_kept(LOG, sequence), sequence, function(entry)
  return tonumber(word(entry, 4)) > time
end)
if first > sequence then return {sequence, offset} end
local _, its_offset = numbers(log_entry(LOG, first)[1])
return {first - 1, its_offset - 1}
