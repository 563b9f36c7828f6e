-- A command's receipt: a line of eight words, a line about the command, and what its host said. The
-- words are status, number, attempt, hash of what was asked, and four times in Unix milliseconds, 0
-- for none: created, delivered, finished, expires.
local function receipt_of(text)
  local status, n, attempt, hash, created, delivered, finished, expires, about, outcome = string.match(
    text, '^(%S+) (%d+) (%d+) (%S+) (%d+) (%d+) (%d+) (%d+)\n([^\n]*)\n(.*)$')
  return {
    status = status, n = tonumber(n), attempt = tonumber(attempt), hash = hash,
    created = tonumber(created), delivered = tonumber(delivered), finished = tonumber(finished),
    expires = tonumber(expires), about = about, outcome = outcome,
  }
end

local function receipt_text(receipt)
  return receipt.status .. string.format(' %.0f %.0f ', receipt.n, receipt.attempt) ..
    receipt.hash .. string.format(' %.0f %.0f %.0f %.0f\n', receipt.created, receipt.delivered,
      receipt.finished, receipt.expires) .. receipt.about .. '\n' .. receipt.outcome
end

-- Whether a command's time is over before any host has read it.
local function is_expired(receipt, now)
  return receipt.status == 'accepted' and receipt.expires > 0 and receipt.expires <= now
end

local function is_waiting(receipt)
  return receipt.status == 'accepted' or receipt.status == 'delivered'
end
