#!lua
-- Ends what a session's log keeps too long.
--
-- KEYS: meta, log, ids. ARGV: log_max_events, log_max_age_ms, entries to look at for their age.
-- Returns how many entries went.
--#include _places.lua
--#include _rewound.lua

local META, LOG, IDS = unpack(KEYS)
local meta = redis.call('HMGET', META, 'epoch', 'sequence', 'first_ms', 'deleted')
if not meta[1] or meta[4] then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- WRITES
--#include _retention.lua
return retain(META, LOG, IDS, tonumber(meta[2]), redis.call('XLEN', LOG),
  tonumber(meta[3] or now), now, tonumber(ARGV[1]), tonumber(ARGV[2]),
  tonumber(ARGV[3]))
