-- Ends commands, {{id, receipt}, …}, whose status and outcome are set: their entries go, their
-- receipts stay for `keep_ms`, the newest `keep_count` of them. Without a command that waits nothing
-- of the session needs its receipts for longer.
local function finish(commands, receipts, due, finished, ended, now, keep_ms, keep_count)
  for i = 1, #ended do
    local id, receipt = ended[i][1], ended[i][2]
    receipt.finished = now
    redis.call('HSET', receipts, id, receipt_text(receipt))
    redis.call('XDEL', commands, string.format('%.0f-0', receipt.n))
    redis.call('ZREM', due, 'c:' .. id)
    redis.call('ZADD', finished, now, id)
  end
  local old = redis.call('ZRANGEBYSCORE', finished, '-inf', string.format('%.0f', now - keep_ms),
    'LIMIT', 0, 100)
  local excess = redis.call('ZCARD', finished) - #old - keep_count
  if excess > 0 then
    local more = redis.call('ZRANGE', finished, #old, #old + math.min(excess, 100) - 1)
    for i = 1, #more do old[#old + 1] = more[i] end
  end
  if #old > 0 then
    redis.call('HDEL', receipts, unpack(old))
    redis.call('ZREM', finished, unpack(old))
  end
  if redis.call('XLEN', commands) == 0 then
    redis.call('UNLINK', commands)
    redis.call('PEXPIRE', receipts, keep_ms)
    redis.call('PEXPIRE', finished, keep_ms)
  end
end
