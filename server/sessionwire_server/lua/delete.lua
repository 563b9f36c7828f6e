#!lua
-- Ends a session: a tombstone stays for a while, everything else goes.
--
-- KEYS: all keys of the session (keys.py). ARGV: live channel, tombstone_ttl_s.
-- Returns 1, or 0 if there was no session.

local META = KEYS[1]
local found = redis.call('HMGET', META, 'epoch', 'deleted')
if not found[1] or found[2] then return 0 end
local time = redis.call('TIME')

-- WRITES
redis.call('UNLINK', unpack(KEYS))
redis.call('HSET', META, 'v', 1, 'epoch', found[1], 'deleted', time[1])
redis.call('EXPIRE', META, ARGV[2])
redis.call('SPUBLISH', ARGV[1], 'x ' .. found[1] .. '\n')
return 1
