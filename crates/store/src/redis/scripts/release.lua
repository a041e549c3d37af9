-- Gives leases back, each by its token only.
-- KEYS: for each cap of each lease its key. ARGV: channel; then for each lease: token, number of caps.
-- Returns {now, how many were still held}.
local channel, held = ARGV[1], 0
local k, a = 1, 2
while ARGV[a] do
  local token, caps = ARGV[a], tonumber(ARGV[a + 1])
  local had = false
  for i = 0, caps - 1 do
    local cap = KEYS[k + i]
    sweep(cap)
    if drop(cap, token) > 0 then
      had = true
      freed(cap, channel)
    end
  end
  if had then held = held + 1 end
  k, a = k + caps, a + 2
end
return {now, held}
