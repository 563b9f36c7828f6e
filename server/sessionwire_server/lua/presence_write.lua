#!lua
-- Notes how many watch a session through one hub, and tells it where the sum over all hubs changed.
-- A hub that has not said anything for `keep_ms` is forgotten, and so is one that takes no part.
--
-- KEYS: meta, presence. ARGV: live channel, hub, viewers, those of them who may answer, whether it
--   takes part (1 or 0), keep_ms.
-- Returns {viewers, those who may answer} of all hubs; {} for a session that does not exist.
--#include _now.lua

local META, PRESENCE = unpack(KEYS)
local channel, hub, viewers, able, takes_part, keep_ms = unpack(ARGV)
local meta = redis.call('HMGET', META, 'epoch', 'deleted')
if not meta[1] or meta[2] then return {} end
local now = clock()

-- As the sum was told last, it counts hubs that have fallen silent since.
local told_viewers, told_able, sum_viewers, sum_able = 0, 0, 0, 0
local silent = {}
local shares = redis.call('HGETALL', PRESENCE)
for i = 1, #shares, 2 do
  local its_viewers, its_able, until_ms = string.match(shares[i + 1], '^(%d+) (%d+) (%d+)$')
  told_viewers, told_able = told_viewers + its_viewers, told_able + its_able
  if shares[i] ~= hub then
    if tonumber(until_ms) > now then
      sum_viewers, sum_able = sum_viewers + its_viewers, sum_able + its_able
    else
      silent[#silent + 1] = shares[i]
    end
  end
end

-- WRITES
if #silent > 0 then redis.call('HDEL', PRESENCE, unpack(silent)) end
if takes_part == '1' then
  sum_viewers, sum_able = sum_viewers + viewers, sum_able + able
  redis.call('HSET', PRESENCE, hub, viewers .. ' ' .. able .. ' ' ..
    string.format('%.0f', now + keep_ms))
  redis.call('PEXPIRE', PRESENCE, keep_ms)
else
  redis.call('HDEL', PRESENCE, hub)
end
if sum_viewers ~= told_viewers or sum_able ~= told_able then
  redis.call('SPUBLISH', channel, string.format('v %s %.0f %.0f\n', meta[1], sum_viewers, sum_able))
end
return {sum_viewers, sum_able}
