#!lua
-- Begins a new epoch if the session still is what the caller saw: numbers given before cannot be
-- trusted any more. Everything stored stays.
--
-- KEYS: meta. ARGV: live channel, fresh epoch, then what was seen: epoch, sequence, offset, check.
-- Returns the epoch in force; '' for a session that does not exist.

local META = KEYS[1]
local found = redis.call('HMGET', META, 'epoch', 'sequence', 'offset', 'check', 'deleted')
if not found[1] or found[5] then return '' end
for i = 1, 4 do
  if found[i] ~= ARGV[i + 2] then return found[1] end
end

-- WRITES
redis.call('HSET', META, 'epoch', ARGV[2])
redis.call('SPUBLISH', ARGV[1], 'r ' .. ARGV[2] .. '\n')
return ARGV[2]
