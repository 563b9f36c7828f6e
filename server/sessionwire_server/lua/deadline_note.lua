#!lua
-- Notes that something of a session will be due, unless an earlier deadline is noted.
--
-- KEYS: deadlines. ARGV: session, in_ms.
--#include _now.lua

local at = clock() + tonumber(ARGV[2])

-- WRITES
redis.call('ZADD', KEYS[1], 'LT', at, ARGV[1])
return at
