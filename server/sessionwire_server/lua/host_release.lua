#!lua
-- Gives a lease back. Its number stays: whoever attaches next gets a higher one.
--
-- KEYS: meta, due. ARGV: live channel, lease, orphan_ms (0 never).
-- Returns 1, or 0 for a lease that is another's or has ended.
--#include _now.lua

local META, DUE = unpack(KEYS)
local meta = redis.call('HMGET', META, 'epoch', 'deleted', 'lease', 'host_id')
if not meta[1] or meta[2] or meta[3] ~= ARGV[2] or not meta[4] then return 0 end
local orphan_ms = tonumber(ARGV[3])

-- WRITES
redis.call('HDEL', META, 'host_id', 'host_since', 'host_until')
redis.call('ZREM', DUE, 'host')
if orphan_ms > 0 then redis.call('ZADD', DUE, clock() + orphan_ms, 'gone') end
redis.call('SPUBLISH', ARGV[1], 'h ' .. meta[1] .. ' ' .. ARGV[2] .. ' 0\n')
return 1
