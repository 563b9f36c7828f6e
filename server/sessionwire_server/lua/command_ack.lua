#!lua
-- Ends a command as its host says.
--
-- KEYS: meta, commands, receipts, due, finished.
-- ARGV: live channel, id, status (consumed or rejected), outcome, lease ('' for whoever holds it),
--   keep_ms, keep_count.
-- Returns {'', epoch, now, receipt}; {'finished', epoch, now, receipt} for one that has ended before;
--   {'unknown'}, {'lost'} for another's lease, {'deleted'} or {}.
--#include _now.lua
--#include _receipt.lua
--#include _command_message.lua

local META, COMMANDS, RECEIPTS, DUE, FINISHED = unpack(KEYS)
local channel, id, status, outcome, lease = unpack(ARGV, 1, 5)
local meta = redis.call('HMGET', META, 'epoch', 'deleted', 'lease')
if meta[2] then return {'deleted'} end
if not meta[1] then return {} end
local text = redis.call('HGET', RECEIPTS, id)
if not text then return {'unknown'} end
if lease ~= '' and lease ~= meta[3] then return {'lost'} end
local now = clock()
local receipt = receipt_of(text)
if not is_waiting(receipt) or is_expired(receipt, now) then
  return {'finished', meta[1], now, text}
end
receipt.status, receipt.outcome, receipt.finished = status, outcome, now

-- WRITES
--#include _finish.lua
finish(COMMANDS, RECEIPTS, DUE, FINISHED, {{id, receipt}}, now, tonumber(ARGV[6]),
  tonumber(ARGV[7]))
redis.call('SPUBLISH', channel, command_message(meta[1], {{id, receipt}}))
return {'', meta[1], now, receipt_text(receipt)}
