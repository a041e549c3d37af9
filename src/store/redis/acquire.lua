-- Decides all claims of one request: grants all of them or charges none.
-- KEYS: the mark; then for each claim: a cap its two, a rate its one.
-- ARGV: token, expiry, quiet time, 1 if somebody waits, channel; then for each claim its kind and
--       for a cap: bound; for a rate: maximum, period, burst.
-- Returns {now, 'granted'}, {now, 'full', index of the claim, retry after} or {now, 'restarted', retry after}.
local token, expiry, channel = ARGV[1], tonumber(ARGV[2]), ARGV[5]
local rest = quiet(KEYS[1], tonumber(ARGV[3]))
if rest > 0 then return {now, 'restarted', rest} end

local writes = {}
local k, a, claim = 2, 6, 0
while ARGV[a] do
  if ARGV[a] == 'cap' then
    local holders, blocks = KEYS[k], KEYS[k + 1]
    if sweep(holders, blocks) >= tonumber(ARGV[a + 1]) then
      if ARGV[4] == '1' then want(holders, blocks, channel) end
      return {now, 'full', claim, frees_after(holders)}
    end
    writes[#writes + 1] = function()
      redis.call('ZADD', holders, now + expiry, token)
      keep(holders, expiry)
    end
    k, a = k + 2, a + 2
  else
    local maximum, period, burst = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
    local units, after, write = meter(KEYS[k], ARGV[a], maximum, period, burst, 1)
    if units == 0 then return {now, 'full', claim, after} end
    writes[#writes + 1] = write
    k, a = k + 1, a + 4
  end
  claim = claim + 1
end
for _, write in ipairs(writes) do write() end
return {now, 'granted'}
