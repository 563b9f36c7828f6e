#!lua flags=no-writes
-- The receipt of a command.
--
-- KEYS: meta, receipts. ARGV: id.
-- Returns {epoch, now, receipt}, '' for a command that is not known (any more); {'deleted'} and {}
--   for a session that was deleted or does not exist.
--#include _now.lua

local META, RECEIPTS = unpack(KEYS)
local meta = redis.call('HMGET', META, 'epoch', 'deleted')
if meta[2] then return {'deleted'} end
if not meta[1] then return {} end
return {meta[1], clock(), redis.call('HGET', RECEIPTS, ARGV[1]) or ''}
