-- Lets a lock live for another expiry if the token holds it.
-- KEYS: the lock, and the mark unless in a cluster. ARGV: token, expiry, quiet time.
-- Returns {now, 1 if it is held}.
-- While the server is quiet after a restart, a lock that it doesn't know is taken down again.
local holder = redis.call('GET', KEYS[1])
local restored = not holder and KEYS[2] and quiet(KEYS[2], tonumber(ARGV[3])) > 0
if holder ~= ARGV[1] and not restored then return {now, 0} end
local millis = math.ceil(tonumber(ARGV[2]) / 1000)
-- What needs no memory is not refused for want of it.
if holder then redis.call('PEXPIRE', KEYS[1], millis) else redis.call('SET', KEYS[1], ARGV[1], 'PX', millis) end
return {now, 1}
