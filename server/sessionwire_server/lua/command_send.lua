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
local n = tonumber(meta[4] or 0) + 1

-- WRITES. The number goes first: it may be skipped, but is never given twice.
--#include _send.lua
redis.call('HSET', META, 'command_n', n)
if meta[5] then
  redis.call('HDEL', META, 'retired')
  redis.call('PERSIST', META)
end
local receipt = send(COMMANDS, RECEIPTS, DUE, FINISHED, n, id, hash, body, about, expires_in, now)
redis.call('SPUBLISH', channel, command_message(meta[1], {{id, receipt}}))
return {'taken', meta[1], now, receipt_text(receipt)}
