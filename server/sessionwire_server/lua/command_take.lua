#!lua
-- Hands the next commands to the host that holds the lease. What expired before it was read ends.
--
-- KEYS: meta, commands, receipts, due, finished.
-- ARGV: live channel, lease, number after which to read, limit, max_bytes, keep_ms, keep_count.
-- Returns {'', epoch, number read up to, more (1 or 0), {number, id, attempt, created_ms, body}…},
--   at least one where there is one; {'lost'} for another's lease, {'deleted'} or {}.
--#include _now.lua
--#include _receipt.lua
--#include _command_message.lua

local META, COMMANDS, RECEIPTS, DUE, FINISHED = unpack(KEYS)
local channel, lease, after = ARGV[1], ARGV[2], tonumber(ARGV[3])
local limit, max_bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
local meta = redis.call('HMGET', META, 'epoch', 'deleted', 'lease')
if meta[2] then return {'deleted'} end
if not meta[1] then return {} end
if meta[3] ~= lease then return {'lost'} end
local now = clock()

local reply, changed, taken, ended = {}, {}, {}, {}
local last, more, bytes = after, 0, 0
while true do
  local entry = redis.call('XRANGE', COMMANDS, string.format('%.0f-0', last + 1), '+', 'COUNT', 1)[1]
  if not entry then break end
  if #taken + #ended >= limit or bytes >= max_bytes then
    more = 1
    break
  end
  local n = tonumber(string.match(entry[1], '^(%d+)'))
  local id, body = entry[2][2], entry[2][4]
  local text = redis.call('HGET', RECEIPTS, id)
  -- A command whose receipt is lost is still a command.
  local receipt = text and receipt_of(text) or {
    status = 'accepted', n = n, attempt = 0, hash = '-', created = now, delivered = 0,
    finished = 0, expires = 0, about = '{}', outcome = '',
  }
  if is_expired(receipt, now) then
    receipt.status = 'expired'
    ended[#ended + 1] = {id, receipt}
    changed[#changed + 1] = {id, receipt}
  else
    if receipt.status == 'accepted' then
      receipt.status, receipt.delivered = 'delivered', now
      changed[#changed + 1] = {id, receipt}
    end
    receipt.attempt = receipt.attempt + 1
    taken[#taken + 1] = {id, receipt}
    bytes = bytes + #body
    reply[#reply + 1] = {n, id, receipt.attempt, receipt.created, body}
  end
  last = n
end
if #taken + #ended == 0 then return {'', meta[1], last, 0} end

-- WRITES
--#include _finish.lua
for i = 1, #taken do
  redis.call('HSET', RECEIPTS, taken[i][1], receipt_text(taken[i][2]))
  redis.call('ZREM', DUE, 'c:' .. taken[i][1])
end
if #ended > 0 then
  finish(COMMANDS, RECEIPTS, DUE, FINISHED, ended, now, tonumber(ARGV[6]), tonumber(ARGV[7]))
end
if #changed > 0 then redis.call('SPUBLISH', channel, command_message(meta[1], changed)) end
return {'', meta[1], last, more, unpack(reply)}
