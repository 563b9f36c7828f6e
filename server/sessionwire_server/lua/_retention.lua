-- Ends what the log keeps too long: by count, then by age looking at no more than `looks` of the
-- oldest entries; the id index and the rewound ranges follow the log. 0 switches a rule off.
-- `kept` is the length of the log, `first_ms` of meta the time of its oldest entry (or of one that
-- is gone already), missing where it is empty. Returns how many entries went.
local function retain(meta_key, log, ids, sequence, kept, first_ms, now, max_events, max_age_ms,
    looks)
  local gone = 0
  if max_events > 0 and kept > max_events then
    gone = redis.call('XTRIM', log, 'MAXLEN', '~', max_events)
  end
  if max_age_ms > 0 and first_ms < now - max_age_ms then
    for _ = 1, looks do
      local oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
      if not oldest then
        redis.call('HDEL', meta_key, 'first_ms')
        break
      end
      local received = tonumber(word(oldest, 4))
      if received >= now - max_age_ms then
        redis.call('HSET', meta_key, 'first_ms', received)
        break
      end
      local at = numbers(oldest[1])
      gone = gone + redis.call('XTRIM', log, 'MINID', '=', string.format('%.0f-0', at + 1))
    end
  end
  if gone > 0 then
    local first = first_kept(log, sequence)
    redis.call('ZREMRANGEBYSCORE', ids, '-inf', string.format('(%.0f', first))
    local rewound = redis.call('HGET', meta_key, 'rewound')
    if rewound and rewound ~= '' then
      redis.call('HSET', meta_key, 'rewound', rewound_text(rewound_ranges(rewound), first))
    end
  end
  return gone
end
