#!lua flags=no-writes
-- What a session looks like to somebody about to read it.
--
-- KEYS: meta, log, tail. ARGV: a sequence, or ''.
-- Returns {epoch, catalog, sequence, offset, check, first sequence, first offset, created_ms,
--   rewound ranges, id at the sequence, its offset, open prompts}, id and offset '' where it is not
--   kept; {} for a session that does not exist, {'deleted'} for one that was deleted lately.
--#include _places.lua

local META, LOG, TAIL = unpack(KEYS)
local meta = redis.call('HMGET', META, 'epoch', 'catalog', 'sequence', 'offset', 'check',
  'created_ms', 'rewound', 'deleted', 'open_prompts')
if meta[8] then return {'deleted'} end
if not meta[1] then return {} end
local sequence, offset = tonumber(meta[3]), tonumber(meta[4])
local id, at = '', ''
if ARGV[1] ~= '' then
  local entry = log_entry(LOG, tonumber(ARGV[1]))
  if entry then
    local _
    _, at = numbers(entry[1])
    id = word(entry, 1)
  end
end
return {meta[1], meta[2] or '', sequence, offset, meta[5], first_kept(LOG, sequence),
  first_kept(TAIL, offset), tonumber(meta[6] or 0), meta[7] or '', id, at,
  tonumber(meta[9] or 0)}
