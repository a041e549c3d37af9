-- Gives leases back, each by its token only.
-- KEYS: for each cap of each lease its two keys. ARGV: channel; then for each lease: token, number of caps.
-- Returns {now, how many were still held}.
local channel, held = ARGV[1], 0
local k, a = 1, 2
while ARGV[a] do
  local token, caps = ARGV[a], tonumber(ARGV[a + 1])
  local had = false
  for i = 0, caps - 1 do
    local holders, blocks = KEYS[k + 2 * i], KEYS[k + 2 * i + 1]
    sweep(holders, blocks)
    if drop(holders, blocks, token) > 0 then
      had = true
      freed(holders, blocks, channel)
    end
  end
  if had then held = held + 1 end
  k, a = k + 2 * caps, a + 2
end
return {now, held}
