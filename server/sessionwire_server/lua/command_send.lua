#!lua
-- Takes a command, unless it is there already.
--
-- KEYS: meta, commands, receipts, due, finished.
-- ARGV: live channel, id, hash of what is asked, body, about, expires_in_ms (0 never), commands_max
--   (0 for any number), always (1: also where the session takes none).
-- Returns {'taken' or 'known', epoch, now, receipt}; a refusal is {'reused'}, {'not_steerable'},
--   {'full'} or {'deleted'}; {} for a session that does not exist.
--#include _now.lua
--#include _receipt.lua
--#include _command_message.lua

local META, COMMANDS, RECEIPTS, DUE, FINISHED = unpack(KEYS)
local channel, id, hash, body, about = unpack(ARGV, 1, 5)
local expires_in, max, always = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1'
local meta = redis.call('HMGET', META, 'epoch', 'deleted', 'steerable', 'command_n', 'retired')
if meta[2] then return {'deleted'} end
if not meta[1] then return {} end
local now = clock()
local known = redis.call('HGET', RECEIPTS, id)
if known then
  if receipt_of(known).hash ~= hash then return {'reused'} end
  return {'known', meta[1], now, known}
end
if meta[3] == '0' and not always then return {'not_steerable'} end
if max > 0 and redis.call('XLEN', COMMANDS) >= max then return {'full'} end
local receipt = {
  status = 'accepted', n = tonumber(meta[4] or 0) + 1, attempt = 0, hash = hash, created = now,
  delivered = 0, finished = 0, expires = expires_in > 0 and now + expires_in or 0, about = about,
  outcome = '',
}
local text = receipt_text(receipt)

-- WRITES. The number goes first: it may be skipped, but is never given twice.
redis.call('HSET', META, 'command_n', receipt.n)
if meta[5] then
  redis.call('HDEL', META, 'retired')
  redis.call('PERSIST', META)
end
redis.call('HSET', RECEIPTS, id, text)
redis.call('XADD', COMMANDS, string.format('%.0f-0', receipt.n), 'i', id, 'b', body)
if receipt.expires > 0 then redis.call('ZADD', DUE, receipt.expires, 'c:' .. id) end
redis.call('PERSIST', RECEIPTS)
redis.call('PERSIST', FINISHED)
redis.call('SPUBLISH', channel, command_message(meta[1], {{id, receipt}}))
return {'taken', meta[1], now, text}
