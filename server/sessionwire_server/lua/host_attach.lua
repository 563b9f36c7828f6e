#!lua
-- Makes somebody the host of a session. The fencing number grows at each attach, also over a loss of
-- writes or a new life of the session, for it follows the clock.
--
-- KEYS: meta, commands, due. ARGV: live channel, host_id, takeover (1 or 0), lease_ms.
-- Returns {'', epoch, lease, expires_ms, number after which commands wait, that of the newest};
--   {'conflict', since} while another one holds the lease; {'deleted'} or {}.
--#include _now.lua

local META, COMMANDS, DUE = unpack(KEYS)
local channel, host, takeover, lease_ms = ARGV[1], ARGV[2], ARGV[3] == '1', tonumber(ARGV[4])
local meta = redis.call('HMGET', META, 'epoch', 'deleted', 'lease', 'host_id', 'host_until',
  'host_since', 'command_n', 'retired')
if meta[2] then return {'deleted'} end
if not meta[1] then return {} end
local now = clock()
local is_held = meta[4] and tonumber(meta[5]) > now
if is_held and meta[4] ~= host and not takeover then return {'conflict', tonumber(meta[6])} end
local since = is_held and meta[4] == host and tonumber(meta[6]) or now
local lease = math.max(tonumber(meta[3] or 0) + 1, now)
local first = redis.call('XRANGE', COMMANDS, '-', '+', 'COUNT', 1)[1]
local newest = tonumber(meta[7] or 0)
local start = first and tonumber(string.match(first[1], '^(%d+)')) - 1 or newest

-- WRITES
redis.call('HSET', META, 'lease', string.format('%.0f', lease), 'host_id', host, 'host_since',
  string.format('%.0f', since), 'host_until', string.format('%.0f', now + lease_ms))
if meta[8] then
  redis.call('HDEL', META, 'retired')
  redis.call('PERSIST', META)
end
redis.call('ZADD', DUE, now + lease_ms, 'host')
redis.call('ZREM', DUE, 'gone')
redis.call('SPUBLISH', channel, string.format('h %s %.0f 1\n', meta[1], lease))
return {'', meta[1], lease, now + lease_ms, start, newest}
