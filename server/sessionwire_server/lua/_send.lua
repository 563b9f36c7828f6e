-- Takes a command: its number is `n`, which meta has as given already. Returns the receipt.
local function send(commands, receipts, due, finished, n, id, hash, body, about, expires_in, now)
  local receipt = {
    status = 'accepted', n = n, attempt = 0, hash = hash, created = now, delivered = 0, finished = 0,
    expires = expires_in > 0 and now + expires_in or 0, about = about, outcome = '',
  }
  redis.call('HSET', receipts, id, receipt_text(receipt))
  redis.call('XADD', commands, string.format('%.0f-0', n), 'i', id, 'b', body)
  if receipt.expires > 0 then redis.call('ZADD', due, receipt.expires, 'c:' .. id) end
  redis.call('PERSIST', receipts)
  redis.call('PERSIST', finished)
  return receipt
end
