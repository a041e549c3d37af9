-- Changes the block that a process holds of a cap, or renews it.
-- KEYS: the mark, the cap's two. ARGV: token, expiry, quiet time, 1 if somebody waits, channel, bound, used, want,
--       had, sequence.
-- Returns {now, 'block', units, 1 if others want some, retry after} or {now, 'restarted', retry after}.
local holders, blocks = KEYS[2], KEYS[3]
local token, expiry, channel = ARGV[1], tonumber(ARGV[2]), ARGV[5]
local bound, used, wish, had, sequence =
  tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])

local rest = quiet(KEYS[1], tonumber(ARGV[3]))
local total = sweep(holders, blocks)
local wanted = is_wanted(blocks)
local current, last = 0, -1
if redis.call('ZSCORE', holders, token) then current, last = block(blocks, token) end

local units
if last >= sequence then
  -- Late: a newer one was here before.
  return {now, 'block', current, wanted and 1 or 0, frees_after(holders)}
elseif rest > 0 and current == 0 then
  -- The server lost its data: what was held before comes back, and nothing else is granted.
  if had == 0 and wish > 0 then return {now, 'restarted', rest} end
  units = math.min(wish, had)
else
  local free = math.max(0, bound - (total - current))
  local spare = math.max(0, free - current)
  local most = current + math.max(1, math.floor(spare / 2))
  if wanted then most = math.max(current, used + 1) end
  if rest > 0 then most = current end
  units = math.max(math.min(wish, free, most), math.min(current, used))
end

if units == 0 then
  drop(holders, blocks, token)
else
  redis.call('ZADD', holders, now + expiry, token)
  -- Without an entry of its own it counts as one unit already.
  local before = redis.call('HEXISTS', blocks, token) == 1 and current or 1
  redis.call('HSET', blocks, token, units .. ' ' .. ARGV[10])
  redis.call('HINCRBY', blocks, 'extra', units - before)
  keep(holders, expiry)
  keep(blocks, math.max(expiry, WANTED))
end
if units < current then freed(holders, blocks, channel) end
if ARGV[4] == '1' and units <= used then want(holders, blocks, channel) end
return {now, 'block', units, wanted and 1 or 0, frees_after(holders)}
