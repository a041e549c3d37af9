-- Lets leases live for another expiry.
-- KEYS: the mark; then for each cap of each lease its key.
-- ARGV: quiet time; then for each lease: token, expiry, number of caps.
-- Returns {now, index of each lost lease ...}.
-- While the server is quiet after a restart, a lease that it doesn't know is taken down again: this is what the
-- quiet time is for. Its holder asks only while the lease has not expired by its own clock.
spend_nothing(KEYS[2])
local restored = quiet(KEYS[1], tonumber(ARGV[1]), true) > 0
local answer = {now}
local k, a, lease = 2, 2, 0
while ARGV[a] do
  local token, expiry, caps = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local alive = true
  for i = 0, caps - 1 do
    settle(KEYS[k + i])
    local expires = tonumber(redis.call('ZSCORE', KEYS[k + i], token) or false)
    if not restored and not (expires and expires > now) then alive = false end
  end
  for i = 0, caps - 1 do
    local cap = KEYS[k + i]
    if alive then
      hold(cap, expiry, token)
    else
      drop(cap, token)
    end
  end
  if not alive then answer[#answer + 1] = lease end
  k, a, lease = k + caps, a + 3, lease + 1
end
return answer
