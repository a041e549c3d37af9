-- Takes a lock if it is free: set if absent, with an expiry and a token.
-- KEYS: the lock, its queue, who of the queue asked when, and the mark unless in a cluster.
-- ARGV: token, expiry, quiet time, 1 to stand in the queue, 1 to ask for a notice.
-- Returns {now, 'taken'}, {now, 'busy', how many are ahead} or {now, 'restarted', retry after}.
local PATIENCE = 1000000 -- who stands in the queue and doesn't ask for this long is gone
local lock, queue, asked = KEYS[1], KEYS[2], KEYS[3]
local token, expiry = ARGV[1], tonumber(ARGV[2])
if KEYS[4] then
  local rest = quiet(KEYS[4], tonumber(ARGV[3]))
  if rest > 0 then return {now, 'restarted', rest} end
end
local holder = redis.call('GET', lock)
-- A repeated question, after an answer that was lost.
if holder == token then return {now, 'taken'} end

local ahead = 0
if ARGV[4] == '1' then
  -- An asker that asked later than now asked before the clock of the server went back: it asks now.
  for _, asker in ipairs(redis.call('ZRANGEBYSCORE', asked, string.format('(%.0f', now), '+inf')) do
    redis.call('ZADD', asked, now, asker)
  end
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', asked, '-inf', now - PATIENCE)) do
    redis.call('ZREM', queue, gone)
    redis.call('ZREM', asked, gone)
  end
  -- A number that grows by one for each who comes: two may come in the same microsecond.
  ahead = redis.call('ZRANK', queue, token)
  if not ahead then
    ahead = redis.call('ZCARD', queue)
    if holder or ahead > 0 then
      local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')
      redis.call('ZADD', queue, tonumber(last[2] or 0) + 1, token)
    end
  end
end
if not holder and ahead == 0 then
  redis.call('SET', lock, token, 'PX', math.ceil(expiry / 1000))
  if ARGV[4] == '1' then
    redis.call('ZREM', queue, token)
    redis.call('ZREM', asked, token)
  end
  return {now, 'taken'}
end
if ARGV[4] == '1' then
  redis.call('ZADD', asked, now, token)
  keep(queue, 2 * PATIENCE)
  keep(asked, 2 * PATIENCE)
end
if ARGV[5] == '1' then
  redis.call('ZADD', asked, now, 'wanted')
  keep(asked, 2 * PATIENCE)
end
return {now, 'busy', ahead}
