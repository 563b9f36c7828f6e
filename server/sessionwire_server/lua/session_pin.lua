#!lua
-- Pins a session, or no longer.
--
-- KEYS: meta. ARGV: 1 or 0. Returns {'done'}, {'deleted'}, or {} for a session that does not exist.

local META = KEYS[1]
local meta = redis.call('HMGET', META, 'epoch', 'deleted')
if meta[2] then return {'deleted'} end
if not meta[1] then return {} end

-- WRITES
if ARGV[1] == '1' then redis.call('HSET', META, 'pinned', 1) else redis.call('HDEL', META, 'pinned') end
return {'done'}
