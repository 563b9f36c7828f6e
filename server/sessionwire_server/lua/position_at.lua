#!lua flags=no-writes
-- The place just after a durable event.
--
-- KEYS: meta, log. ARGV: sequence.
-- Returns {sequence, offset}; {''} where the event is not kept, {} for a session that does not
--   exist.
--#include _places.lua

local META, LOG = unpack(KEYS)
local meta = redis.call('HMGET', META, 'epoch', 'deleted')
if not meta[1] or meta[2] then return {} end
local entry = log_entry(LOG, tonumber(ARGV[1]))
if not entry then return {''} end
return {numbers(entry[1])}
