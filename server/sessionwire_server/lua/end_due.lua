#!lua
-- Ends what of a session has reached its deadline: commands that no host has read, a host's lease.
-- What is due of prompts is only told: whoever hears it decides what becomes of them.
--
-- KEYS: meta, commands, receipts, due, finished. ARGV: live channel, limit, keep_ms, keep_count,
--   orphan_ms (0 never).
-- Returns {the next deadline in Unix milliseconds, 0 for none, whether the host went, whether
--   something of prompts is due (1 or 0)}; {} for a session that was deleted or does not exist.
--#include _now.lua
--#include _receipt.lua
--#include _command_message.lua

local META, COMMANDS, RECEIPTS, DUE, FINISHED = unpack(KEYS)
local channel, limit = ARGV[1], tonumber(ARGV[2])
local meta = redis.call('HMGET', META, 'epoch', 'deleted', 'lease', 'host_until')
if meta[2] or not meta[1] then return {} end
local now = clock()
local due = redis.call('ZRANGEBYSCORE', DUE, '-inf', string.format('%.0f', now), 'LIMIT', 0, limit)
local ended, lapsed, over, of_prompts = {}, 0, {}, 0
for i = 1, #due do
  local id = string.match(due[i], '^c:(.+)$')
  local text = id and redis.call('HGET', RECEIPTS, id)
  local receipt = text and receipt_of(text)
  if receipt and is_expired(receipt, now) then
    receipt.status = 'expired'
    ended[#ended + 1] = {id, receipt}
  elseif due[i] == 'host' and meta[4] and tonumber(meta[4]) <= now then
    lapsed = 1
  end
  if due[i] == 'gone' or string.match(due[i], '^[pu]:') then of_prompts = 1
  else over[#over + 1] = due[i] end
end
if #over == 0 then
  local first = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  return {tonumber(first[2] or 0), 0, of_prompts}
end

-- WRITES
--#include _finish.lua
redis.call('ZREM', DUE, unpack(over))
if lapsed == 1 then
  redis.call('HDEL', META, 'host_id', 'host_since', 'host_until')
  local orphan_ms = tonumber(ARGV[5])
  if orphan_ms > 0 then redis.call('ZADD', DUE, now + orphan_ms, 'gone') end
end
if #ended > 0 then
  finish(COMMANDS, RECEIPTS, DUE, FINISHED, ended, now, tonumber(ARGV[3]), tonumber(ARGV[4]))
end
local first = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
if #ended > 0 then redis.call('SPUBLISH', channel, command_message(meta[1], ended)) end
if lapsed == 1 then redis.call('SPUBLISH', channel, 'h ' .. meta[1] .. ' ' .. meta[3] .. ' 0\n') end
return {tonumber(first[2] or 0), lapsed, of_prompts}
