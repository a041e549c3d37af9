-- Frees a lock if the token holds it, and leaves its queue.
-- KEYS: the lock, its queue, who of the queue asked when. ARGV: token, channel.
-- Returns {now, 1 if it was held}.
local lock, queue, asked = KEYS[1], KEYS[2], KEYS[3]
redis.call('ZREM', queue, ARGV[1])
redis.call('ZREM', asked, ARGV[1])
if redis.call('GET', lock) ~= ARGV[1] then return {now, 0} end
redis.call('DEL', lock)
if redis.call('EXISTS', asked) == 1 then publish(ARGV[2], 'freed', lock) end
return {now, 1}
