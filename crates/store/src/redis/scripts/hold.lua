-- Changes the block that a process holds of a cap, or renews it.
-- KEYS: the mark, the cap. ARGV: token, expiry, quiet time, 1 if somebody waits, channel, bound, used, want, had, sequence,
--       need.
-- Returns {now, 'block', units, 1 if some is wanted back, retry after, target} or {now, 'restarted', retry after}.
local cap = KEYS[2]
local token, expiry, waits, channel = ARGV[1], tonumber(ARGV[2]), ARGV[4] == '1', ARGV[5]
local bound, used, want_units, had, sequence =
  tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local need = math.max(tonumber(ARGV[11]), used + (waits and 1 or 0))

local total = sweep(cap)
local current, last, is_block = 0, -1, false
if redis.call('ZSCORE', cap, token) then current, last, is_block = block(cap, token) end
if current > 0 then spend_nothing(cap) end
local wishes, others = wishes_for(cap, token)
local mine = wishes[token]
local rest = quiet(KEYS[1], tonumber(ARGV[3]), had > 0)
bound = lowest(cap, bound, expiry, total)
if last >= sequence then
  -- Late: a newer one was here before.
  return {now, 'block', current, others and 1 or 0, frees_after(cap), bound}
end

local turn = mine and mine.turn or now
local target, level = bound, bound
if others then
  target, level = fair(cap, bound, token, need, turn, wishes)
  -- More than the level is a turn at what rounding leaves over. It ends when a unit comes free: the others are next.
  if current > level then
    turn = now
    target = fair(cap, bound, token, need, turn, wishes)
  end
end
local units
if rest > 0 then
  -- The server lost its data, or has older data: what was held before comes back, and nothing else is granted.
  if had == 0 and want_units > 0 then return {now, 'restarted', rest} end
  units = math.min(want_units, had)
else
  local free = math.max(0, bound - (total - current))
  local most = current + math.max(1, math.floor(math.max(0, free - current) / 2))
  if others then most = math.min(target, need) end
  -- What the process uses, or may begin to use before it hears the answer, is not taken away.
  local kept = math.min(current, math.max(used, math.min(had, want_units)))
  units = math.max(math.min(want_units, free, most), kept)
end

if units == 0 then
  drop(cap, token)
else
  hold(cap, expiry, token, -units, 'units ' .. token, -(FAR + sequence), 'number ' .. token)
  -- Without a number of units it counts as one already.
  add_extra(cap, units - (is_block and current or 1))
end

if units < need and (waits or mine) then
  if units > level then turn = now end
  if waits or turn == now then wish(cap, wishes, token, need, turn) end
  if waits then want(cap, channel) end
elseif mine then
  redis.call('ZREM', cap, mine.member)
end
if units < current or (mine and others and need <= units) then freed(cap, channel) end
-- After the cap was lowered, holders come down to their parts as if others waited.
others = others or (units > 0 and total - current + units > bound)
if others then target = fair(cap, bound, token, need, turn, wishes) end
return {now, 'block', units, others and 1 or 0, frees_after(cap), target}
