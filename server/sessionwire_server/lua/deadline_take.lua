#!lua
-- Takes sessions whose deadline is reached, by moving it ahead: another hub finds them due again if
-- this one does not get to them.
--
-- KEYS: deadlines. ARGV: limit, ahead_ms.
-- Returns {the deadline set, sessions…}.
--#include _now.lua

local now = clock()
local ahead = now + tonumber(ARGV[2])
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0,
  ARGV[1])
if #due == 0 then return {ahead} end

-- WRITES
for i = 1, #due do redis.call('ZADD', KEYS[1], 'XX', ahead, due[i]) end
return {ahead, unpack(due)}
