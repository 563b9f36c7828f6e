#!lua
-- Puts off the end of a lease, also of one that ended while nobody else took it.
--
-- KEYS: meta, due. ARGV: live channel, host_id, lease, lease_ms.
-- Returns {'', whether it had ended (1 or 0)}; {'lost'} for another's lease, {'deleted'} or {}.
--#include _now.lua

local META, DUE = unpack(KEYS)
local channel, host, lease, lease_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local meta = redis.call('HMGET', META, 'epoch', 'deleted', 'lease', 'host_id')
if meta[2] then return {'deleted'} end
if not meta[1] then return {} end
if meta[3] ~= lease then return {'lost'} end
local now = clock()

-- WRITES
redis.call('HSET', META, 'host_until', string.format('%.0f', now + lease_ms))
if not meta[4] then
  redis.call('HSET', META, 'host_id', host, 'host_since', string.format('%.0f', now))
end
redis.call('ZADD', DUE, now + lease_ms, 'host')
if not meta[4] then redis.call('ZREM', DUE, 'gone') end
if not meta[4] then redis.call('SPUBLISH', channel, 'h ' .. meta[1] .. ' ' .. lease .. ' 1\n') end
return {'', meta[4] and 0 or 1}
