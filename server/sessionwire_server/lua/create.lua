#!lua
-- Makes a session, unless it exists. A deleted one begins anew.
--
-- KEYS: all keys of the session (keys.py). ARGV: fresh epoch, catalog, title, given (JSON),
--   completion.
-- Returns {made (1 or 0), meta fields…}.

local META = KEYS[1]
local found = redis.call('HMGET', META, 'epoch', 'deleted')
if found[1] and not found[2] then return {0, unpack(redis.call('HGETALL', META))} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- WRITES
redis.call('UNLINK', unpack(KEYS))
redis.call('HSET', META, 'v', 1, 'epoch', ARGV[1], 'offset', 0, 'sequence', 0, 'last_id', '',
  'check', '0', 'catalog', ARGV[2], 'title', ARGV[3], 'status', 'started', 'given', ARGV[4],
  'created_ms', now, 'updated_ms', now, 'received_ms', now, 'completion', ARGV[5])
return {1, unpack(redis.call('HGETALL', META))}
