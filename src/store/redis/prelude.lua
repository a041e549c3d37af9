-- What all scripts share. Times are whole microseconds of the server's clock: exact in a double until the year 2255.
local WANTED = 2000000 -- for how long a wish for a cap is remembered

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- Redis forgets keys by itself, a little after the last thing that they say is over.
local function keep(key, micros)
  local millis = math.ceil(micros / 1000) + 1000
  if redis.call('PTTL', key) < millis then redis.call('PEXPIRE', key, millis) end
end

-- How long nothing is granted since the server came up without its data.
-- The mark tells: it is set once and never expires, so where it is missing, so may be leases.
local function quiet(mark, hold)
  if hold == 0 then return 0 end
  local since = tonumber(redis.call('GET', mark) or false)
  if not since or since > now then
    redis.call('SET', mark, now)
    since = now
  end
  return math.max(0, since + hold - now)
end

-- A cap has two keys. `holders` is a sorted set: token -> when it expires. `blocks` is a hash that is there only
-- where it is needed: token -> "units sequence" of those that hold a block, `extra` -> units of blocks beyond the
-- first of each, `wanted` -> until when somebody waits.
local function block(blocks, token)
  local text = redis.call('HGET', blocks, token)
  if not text then return 1, 0 end
  local units, sequence = text:match('^(%d+) (%d+)$')
  return tonumber(units), tonumber(sequence)
end

local function drop(holders, blocks, token)
  if redis.call('ZREM', holders, token) == 0 then return 0 end
  local units = block(blocks, token)
  if redis.call('HDEL', blocks, token) == 1 then redis.call('HINCRBY', blocks, 'extra', 1 - units) end
  return units
end

-- Takes back what expired; returns the units that are held.
local function sweep(holders, blocks)
  local expired = redis.call('ZRANGEBYSCORE', holders, '-inf', now)
  for _, token in ipairs(expired) do drop(holders, blocks, token) end
  return redis.call('ZCARD', holders) + tonumber(redis.call('HGET', blocks, 'extra') or 0)
end

local function frees_after(holders)
  local first = redis.call('ZRANGE', holders, 0, 0, 'WITHSCORES')
  if not first[2] then return 0 end
  return tonumber(first[2]) - now
end

local function is_wanted(blocks)
  return tonumber(redis.call('HGET', blocks, 'wanted') or 0) > now
end

local function publish(channel, word, key)
  if channel ~= '' then redis.call('PUBLISH', channel, word .. ' ' .. key) end
end

local function want(holders, blocks, channel)
  if not is_wanted(blocks) then publish(channel, 'wanted', holders) end
  redis.call('HSET', blocks, 'wanted', now + WANTED)
  keep(blocks, WANTED)
end

local function freed(holders, blocks, channel)
  if is_wanted(blocks) then publish(channel, 'freed', holders) end
end

-- Units of a rate: how many of `most` there are, when there will be one or how long these may be used, and what to
-- write down. kind, maximum, period, burst as the claim has them.
local function meter(key, kind, maximum, period, burst, most)
  if kind == 'bucket' then
    local index = math.floor(now / period)
    local charged = redis.call('HMGET', key, 'index', 'charged')
    local used = 0
    if tonumber(charged[1] or -1) == index then used = tonumber(charged[2]) end
    local units = math.max(0, math.min(most, maximum - used))
    local over = (index + 1) * period - now
    return units, over, function()
      redis.call('HSET', key, 'index', index, 'charged', used + units)
      keep(key, over)
    end
  end
  local step = math.ceil(period / maximum)
  local ahead = step * burst
  local next = math.max(tonumber(redis.call('HGET', key, 'next') or 0), now)
  local units = math.max(0, math.min(most, math.floor((now + ahead - next) / step)))
  local after = ahead
  if units == 0 then after = next + step - (now + ahead) end
  return units, after, function()
    redis.call('HSET', key, 'next', next + units * step)
    keep(key, next + units * step - now)
  end
end
