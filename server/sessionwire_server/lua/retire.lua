#!lua
-- Removes what an idle session keeps, unless a prompt is open, a command waits or a host is there. Its
-- numbers stay for a day, so a viewer that comes back and a host that goes on find their place.
--
-- KEYS: all keys of the session (keys.py). ARGV: idle_ms, meta_ttl_s.
-- Returns 1 if the session is retired or gone, 0 if it is not idle.

local META, PROMPTS, COMMANDS = KEYS[1], KEYS[8], KEYS[10]
local meta = redis.call('HMGET', META, 'epoch', 'updated_ms', 'deleted', 'retired', 'host_id',
  'open_prompts')
if not meta[1] or meta[3] or meta[4] then return 1 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(meta[2]) > now - tonumber(ARGV[1]) then return 0 end
if meta[5] or tonumber(meta[6] or 0) > 0 then return 0 end
if redis.call('EXISTS', PROMPTS, COMMANDS) > 0 then return 0 end

-- WRITES
redis.call('UNLINK', unpack(KEYS, 2))
redis.call('HDEL', META, 'rewound', 'first_ms', 'expiry_ms')
redis.call('HSET', META, 'retired', 1)
redis.call('EXPIRE', META, ARGV[2])
return 1
