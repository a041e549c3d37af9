-- What all scripts share. Times are whole microseconds of the server's clock: exact in a double until the year 2255.
local WANTED = 2000000 -- for how long it is remembered that somebody waits for a cap
local WISH = 400000 -- for how long a wish counts: longer than the longest pause between two questions
local KNOWN = 60000000 -- for how long a cluster remembers a cap that is not used
local FAR = 10000000000 -- scores of what is said of a cap are told apart by their size: beyond all numbers of units
local AGES = -1000000000000000 -- before all times of now
local SINCE = {'-100000000000000', '-500000000000'} -- between these: since when a cap is known

-- While a slot of a cluster moves, only the first key is declared, and the others come before the arguments: the node
-- that takes it over refuses scripts that declare several keys unless it has them all.
local KEYS, ARGV = KEYS, ARGV
if ARGV[1] == 'keys' then
  local keys, args, last = {KEYS[1]}, {}, tonumber(ARGV[2]) + 2
  for i = 3, #ARGV do
    if i <= last then keys[#keys + 1] = ARGV[i] else args[#args + 1] = ARGV[i] end
  end
  KEYS, ARGV = keys, args
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- Redis forgets keys by itself, a little after the last thing that they say is over.
local function keep(key, micros)
  local millis = math.ceil(micros / 1000) + 1000
  if redis.call('PTTL', key) < millis then redis.call('PEXPIRE', key, millis) end
end

-- A server that is out of memory refuses the first write of a script that may need some, and none after one that
-- needs none: what is held already can be kept.
local function spend_nothing(cap) redis.call('ZREM', cap, '') end

-- The run of the server, as the client knows it: always the last argument. Empty if it doesn't, and in a cluster.
local run = table.remove(ARGV)

-- What a node of a cluster says of its data: the name of their history, and that of the one that they go on with if the
-- node was a replica before. Each start and each takeover makes a new one. Empty where it is not permitted to ask.
local function histories()
  local info = redis.pcall('INFO', 'replication')
  if type(info) ~= 'string' then return '', '' end
  return info:match('master_replid:(%x+)') or '', info:match('master_replid2:(%x+)') or ''
end

-- Since when a node of a cluster is there.
local function up_since()
  local info = redis.pcall('INFO', 'server')
  local up = type(info) == 'string' and info:match('uptime_in_seconds:(%d+)') or 0
  return now - tonumber(up) * 1000000
end

-- How long nothing is granted of a cap in a cluster, where no mark is in the slots of all namespaces. The cap says
-- itself since when it is known, and in which history.
-- Without that it is new, unless the node came up lately, or its caller `holds` some of it: then it was forgotten.
-- Where it is of the history that the node took over, its last changes may be missing. Where it is of another one, it
-- moved here, unless the node came up lately: then it may be what the node wrote down long before it ended.
local function quiet_here(cap, hold, holds)
  local known = redis.call('ZRANGEBYSCORE', cap, SINCE[1], SINCE[2], 'WITHSCORES', 'LIMIT', 0, 1)
  local since, of = -1000 * tonumber(known[2] or 0), known[1] and known[1]:match('^known (%x*)$')
  local here, before = histories()
  if not of or since > now + 1000 or (here ~= '' and here ~= of) then
    local forgotten = of and of == before or not of and holds
    since = forgotten and now or math.min(now, math.max(since, up_since()))
    if of then redis.call('ZREM', cap, known[1]) end
    redis.call('ZADD', cap, -math.ceil(since / 1000), 'known ' .. here)
  end
  if redis.call('PTTL', cap) < KNOWN / 2000 then redis.call('PEXPIRE', cap, KNOWN / 1000) end
  return math.max(0, since + hold - now)
end

-- How long nothing is granted since the server came up without its data, or with older data.
-- The mark tells: since when, and in which run of the server. It never expires, so where it is missing, so may be
-- leases; and where it is of another run, those are missing that were granted after what that run wrote down.
local function quiet(mark, hold, holds)
  if hold == 0 then return 0 end
  -- A mark has no hash tag.
  if mark:find('{', 1, true) then return quiet_here(mark, hold, holds) end
  local told = redis.pcall('GET', mark)
  -- A key that another program wrote over is as good as none. Any other error is one.
  if type(told) == 'table' then told = not told.err:find('WRONGTYPE', 1, true) and redis.call('GET', mark) end
  local since, of = (told or ''):match('^(%d+) ?(%x*)$')
  since = tonumber(since)
  if not since or since > now or (run ~= '' and of ~= run) then
    redis.call('SET', mark, string.format('%.0f %s', now, run))
    since = now
  end
  return math.max(0, since + hold - now)
end

-- A cap is one sorted set, so that it moves between the nodes of a cluster as a whole. Holders: token -> when it expires.
-- What is said of them has scores below zero, and is there only where it is needed:
--   units TOKEN            -units of a block; a lease has no such member and counts as one unit
--   number TOKEN           -(FAR + sequence) of the request that changed the block last
--   extra                  -units of blocks beyond the first of each
--   wanted                 -until when it is known that somebody waits
--   wish TOKEN NEED TURN   -until when it counts; all leases have one, of `lease`
--   bound                  -the lowest bound that was stated lately; while some is held
--   bound until            -until when that counts
--   clock                  -when holders were written down last, in units of ten microseconds; while some is held
--   known HISTORY          -since when nothing was forgotten, in milliseconds; in clusters
local function block(cap, token)
  local units = redis.call('ZSCORE', cap, 'units ' .. token)
  if not units then return 1, 0, false end
  return -tonumber(units), -tonumber(redis.call('ZSCORE', cap, 'number ' .. token) or -FAR) - FAR, true
end

local function add_extra(cap, units)
  if units ~= 0 and tonumber(redis.call('ZINCRBY', cap, -units, 'extra')) == 0 then redis.call('ZREM', cap, 'extra') end
end

local function drop(cap, token)
  if redis.call('ZREM', cap, token) == 0 then return 0 end
  local units = block(cap, token)
  if redis.call('ZREM', cap, 'units ' .. token, 'number ' .. token) > 0 then add_extra(cap, 1 - units) end
  if redis.call('ZCOUNT', cap, 0, '+inf') == 0 then redis.call('ZREM', cap, 'bound', 'bound until', 'clock') end
  return units
end

-- Where the clock of the server went back, what is held by the dead would be held until it is as late again. So what was
-- written down last before that is now, and what it says of times goes back as far. Called before a cap is judged or changed.
local function settle(cap)
  local ahead = -10 * tonumber(redis.call('ZSCORE', cap, 'clock') or 0) - now
  if ahead <= 0 then return end
  spend_nothing(cap)
  local all = redis.call('ZRANGEBYSCORE', cap, 0, '+inf', 'WITHSCORES')
  for i = 1, #all, 2 do redis.call('ZADD', cap, tonumber(all[i + 1]) - ahead, all[i]) end
  local bound = redis.call('ZSCORE', cap, 'bound until')
  if bound then redis.call('ZADD', cap, tonumber(bound) + ahead, 'bound until') end
  redis.call('ZADD', cap, -math.floor(now / 10), 'clock')
end

-- Writes down that `token` holds some of a cap for `expiry` from now on; and what else is said of that.
local function hold(cap, expiry, token, ...)
  redis.call('ZADD', cap, now + expiry, token, -math.floor(now / 10), 'clock', ...)
  keep(cap, expiry)
end

-- Takes back what expired; returns the units that are held.
local function sweep(cap)
  settle(cap)
  local expired = redis.call('ZRANGEBYSCORE', cap, 0, now)
  for _, token in ipairs(expired) do drop(cap, token) end
  return redis.call('ZCOUNT', cap, 0, '+inf') - tonumber(redis.call('ZSCORE', cap, 'extra') or 0)
end

local function frees_after(cap)
  local first = redis.call('ZRANGEBYSCORE', cap, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if not first[2] then return 0 end
  return tonumber(first[2]) - now
end

-- More than it can be is what a clock said that went back since; so it is with wishes.
local function wanted_for(cap)
  local left = -tonumber(redis.call('ZSCORE', cap, 'wanted') or 0) - now
  return left > WANTED and 0 or left
end

local function publish(channel, word, key)
  if channel ~= '' then redis.call('PUBLISH', channel, word .. ' ' .. key) end
end

-- Said again while it is so: whoever holds units remembers it for as long as this does.
local function want(cap, channel)
  if wanted_for(cap) > WANTED / 2 then return end
  redis.call('ZADD', cap, -(now + WANTED), 'wanted')
  keep(cap, WANTED)
  publish(channel, 'wanted', cap)
end

local function freed(cap, channel)
  if wanted_for(cap) > 0 then publish(channel, 'freed', cap) end
end

-- What is wished for: name -> need, turn and member; and whether others than `token` wish for some.
local function wishes_for(cap, token)
  local wishes, others = {}, false
  if wanted_for(cap) <= 0 then return wishes, others end
  -- Those that are over are not removed here: that would be a write, after which a full server refuses none.
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', cap, -now - WISH, string.format('(%.0f', -now))) do
    local name, need, turn = member:match('^wish (%S+) (%d+) (%d+)$')
    if name then
      wishes[name] = {need = tonumber(need), turn = tonumber(turn), member = member}
      others = others or name ~= token
    end
  end
  return wishes, others
end

-- Writes down that `token` could use `need` units, since `turn`.
local function wish(cap, wishes, token, need, turn)
  local member = string.format('wish %s %.0f %.0f', token, need, turn)
  if wishes[token] and wishes[token].member ~= member then redis.call('ZREM', cap, wishes[token].member) end
  redis.call('ZADD', cap, -(now + WISH), member)
  redis.call('ZREMRANGEBYSCORE', cap, -now, AGES)
  keep(cap, WISH)
end

local function blocks_of(cap)
  local all, blocks = redis.call('ZRANGEBYSCORE', cap, -FAR + 1, -1, 'WITHSCORES'), {}
  local count = 0
  for i = 1, #all, 2 do
    local name = all[i]:match('^units (%S+)$')
    if name then
      blocks[name] = -tonumber(all[i + 1])
      count = count + 1
    end
  end
  return blocks, redis.call('ZCOUNT', cap, 0, '+inf') - count
end

-- How many units of a cap `token` should have: each has what it needs up to a level, the same for all; what is left over
-- by rounding goes to those whose turn is the oldest, a unit each. Returns that and the level.
local function fair(cap, bound, token, need, turn, wishes)
  local needs, leases = blocks_of(cap)
  if leases > 0 then needs.lease = leases end
  for name, wish in pairs(wishes) do needs[name] = wish.need end
  needs[token] = need
  local all = {}
  for name, units in pairs(needs) do
    local since = wishes[name] and wishes[name].turn or now
    if name == token then since = turn end
    all[#all + 1] = {name = name, need = units, turn = since}
  end
  table.sort(all, function(one, other) return one.need < other.need end)
  local left, count, level = bound, #all, 0
  for i, claimant in ipairs(all) do
    level = math.floor(left / (count - i + 1))
    if claimant.need > level then
      -- All from here on need more than the level.
      local above = {}
      for j = i, count do above[#above + 1] = all[j] end
      table.sort(above, function(one, other)
        if one.turn ~= other.turn then return one.turn < other.turn end
        return one.name < other.name
      end)
      local over = left - level * #above
      for place, it in ipairs(above) do
        if it.name == token then return level + (place <= over and 1 or 0), level end
      end
      return need, level
    end
    left = left - claimant.need
  end
  return need, bound
end

-- The bound that counts for all: the lowest that was stated lately, while some of the cap is held. While settings change,
-- processes state different ones, and those with a lower one would starve beside the others if each went by its own.
local function lowest(cap, bound, lasts, held)
  local stated, left = 0, 0
  if held > 0 then stated = -tonumber(redis.call('ZSCORE', cap, 'bound') or 0) end
  if stated > 0 then left = -tonumber(redis.call('ZSCORE', cap, 'bound until') or 0) - now end
  if left > 0 and stated < bound then return stated end
  if left <= lasts / 2 or stated ~= bound then
    redis.call('ZADD', cap, -bound, 'bound', -(now + lasts), 'bound until')
    keep(cap, lasts)
  end
  return bound
end

-- Units of a rate: how many of `most` there are, when there will be one or how long these may be used, and what to
-- write down. kind, maximum, period, burst as the claim has them.
local function meter(key, kind, maximum, period, burst, most)
  local told = redis.call('HMGET', key, 'index', 'charged', 'next', 'at')
  local index, of, next = math.floor(now / period), tonumber(told[1] or -1), tonumber(told[3] or 0)
  -- Where the clock of the server went back, what was charged last is charged now.
  local back = tonumber(told[4] or 0) - now
  if back > 0 then
    of, next = index, next - back
    redis.call('HSET', key, 'index', of, 'next', next, 'at', now)
  end
  if kind == 'bucket' then
    local used = of == index and tonumber(told[2] or 0) or 0
    local units = math.max(0, math.min(most, maximum - used))
    local over = (index + 1) * period - now
    return units, over, function()
      redis.call('HSET', key, 'index', index, 'charged', used + units, 'at', now)
      keep(key, over)
    end
  end
  local step = math.ceil(period / maximum)
  local ahead = step * burst
  next = math.max(next, now)
  local units = math.max(0, math.min(most, math.floor((now + ahead - next) / step)))
  local after = ahead
  if units == 0 then after = next + step - (now + ahead) end
  return units, after, function()
    redis.call('HSET', key, 'next', next + units * step, 'at', now)
    keep(key, next + units * step - now)
  end
end
