-- Charges several units of a rate at once.
-- KEYS: the mark, the rate. ARGV: quiet time, kind, maximum, period, burst, most.
-- Returns {now, 'drawn', units, after} or {now, 'restarted', retry after}.
local rest = quiet(KEYS[1], tonumber(ARGV[1]))
if rest > 0 then return {now, 'restarted', rest} end
local units, after, write =
  meter(KEYS[2], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]))
if units > 0 then write() end
return {now, 'drawn', units, after}
