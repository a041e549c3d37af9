-- Decides all claims of one request: grants all of them or charges none.
-- KEYS: the mark; then for each claim: its key.
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
    local cap = KEYS[k]
    local held = sweep(cap)
    if held >= lowest(cap, tonumber(ARGV[a + 1]), expiry, held) then
      if ARGV[4] == '1' then
        local blocks, leases = blocks_of(cap)
        -- To those who hold blocks, all leases together are one more that needs some.
        if next(blocks) then
          local wishes = wishes_for(cap, 'lease')
          wish(cap, wishes, 'lease', leases + 1, wishes.lease and wishes.lease.turn or now)
        end
        want(cap, channel)
      end
      -- A server that takes no writes, such as a replica, can't say so: what it knows is not given back any more.
      spend_nothing(cap)
      return {now, 'full', claim, frees_after(cap)}
    end
    writes[#writes + 1] = function()
      hold(cap, expiry, token)
      -- Those who still wait for a lease are the last in turn from now on.
      local served = wishes_for(cap, 'lease').lease
      if served then redis.call('ZREM', cap, served.member) end
    end
    a = a + 2
  else
    local maximum, period, burst = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
    local units, after, write = meter(KEYS[k], ARGV[a], maximum, period, burst, 1)
    if units == 0 then return {now, 'full', claim, after} end
    writes[#writes + 1] = write
    a = a + 4
  end
  k = k + 1
  claim = claim + 1
end
for _, write in ipairs(writes) do write() end
return {now, 'granted'}
