#!lua
-- Sets a session's next deadline after its work is done, or forgets it; one noted meanwhile stays.
--
-- KEYS: deadlines. ARGV: session, the deadline that taking it set, the next one (0 for none).
-- Returns 1 if something changed.

local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
local is_ours = score and tonumber(score) == tonumber(ARGV[2])
local next_ms = tonumber(ARGV[3])
if next_ms == 0 and not is_ours then return 0 end

-- WRITES
if next_ms == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
elseif is_ours then
  redis.call('ZADD', KEYS[1], next_ms, ARGV[1])
else
  redis.call('ZADD', KEYS[1], 'LT', next_ms, ARGV[1])
end
return 1
