#!lua
-- Writes a session's budget if it still is what it was.
--
-- KEYS: meta, budgets. ARGV: id, the record as it was ('' for none), the new one ('' for none), how
--   many a session may have.
-- Returns {'done'}, {'stale'}, {'full'}, {'deleted'}, or {} for a session that does not exist.

local META, BUDGETS = KEYS[1], KEYS[2]
local id, before, after, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local meta = redis.call('HMGET', META, 'epoch', 'deleted', 'retired')
if meta[2] then return {'deleted'} end
if not meta[1] then return {} end
if (redis.call('HGET', BUDGETS, id) or '') ~= before then return {'stale'} end
if before == '' and redis.call('HLEN', BUDGETS) >= most then return {'full'} end

-- WRITES
if after == '' then
  redis.call('HDEL', BUDGETS, id)
else
  redis.call('HSET', BUDGETS, id, after)
end
if meta[3] then
  redis.call('HDEL', META, 'retired')
  redis.call('PERSIST', META)
end
return {'done'}
