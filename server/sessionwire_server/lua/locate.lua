#!lua flags=no-writes
-- Where an event id stands: among the durable ids, then among the ephemeral ones.
--
-- KEYS: meta, log, tail, ids, eids. ARGV: id.
-- Returns {sequence, offset}; {''} for an id that is not known (any more), {} for a session that
--   does not exist.
--#include _places.lua

local META, LOG, TAIL, IDS, EIDS = unpack(KEYS)
local meta = redis.call('HMGET', META, 'epoch', 'sequence', 'deleted')
if not meta[1] or meta[3] then return {} end
local score = redis.call('ZSCORE', IDS, ARGV[1])
if score then
  local entry = log_entry(LOG, tonumber(score))
  if entry then return {numbers(entry[1])} end
end
score = redis.call('ZSCORE', EIDS, ARGV[1])
if not score then return {''} end
local offset = tonumber(score)
local sequence = at_offset(LOG, TAIL, offset, tonumber(meta[2]))
return {sequence, offset}
