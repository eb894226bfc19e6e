-- Gives an instance its share of a limit of quotas.
--
-- KEYS[1]: a hash with two fields for each instance: `h` and its number has "units wanted until",
-- its share; `t` and its number has "units until", what it has given up and may still use.
-- KEYS[2]: a hash of all quotas: the run of the server, and since when it is known.
-- ARGV: the number of the instance, its least, what it wants, the limit, and for how long a share
-- lasts, in ms.
-- Returns the units, and those that the instance should get along with from now on.
--
-- An instance can not give up at once what is charged: its clients would get nothing until all of
-- it has ended. So it gets to know what it should have, charges less and less, and its share
-- follows.
local id, least, wanted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, lasts = tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- After a loss of the state, all shares of before end first.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  .. string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local known = redis.call('HMGET', KEYS[2], 'run', 'since')
local since = tonumber(known[2])
if known[1] ~= run then
  since = now
  redis.call('HSET', KEYS[2], 'run', run, 'since', string.format('%.0f', since))
end
if now < since + lasts then return {0, 0} end

local others, demand, instances, last = 0, wanted, 1, now + lasts
local all = redis.call('HGETALL', KEYS[1])
local mine, tail = nil, nil
for i = 1, #all, 2 do
  local field, values = all[i], {}
  for value in string.gmatch(all[i + 1], '%S+') do values[#values + 1] = tonumber(value) end
  local till = values[#values]
  if till <= now then
    redis.call('HDEL', KEYS[1], field)
  elseif field == 'h' .. id then
    mine = values
  else
    others = others + values[1]
    last = math.max(last, till)
    if field == 't' .. id then tail = values end
    if #values == 3 then demand, instances = demand + values[2], instances + 1 end
  end
end

-- Of what nobody asks for, each has a part, and one is free for an instance that begins.
local goal = wanted + math.floor((limit - demand) / (instances + 1))
if demand > limit then goal = math.floor(limit * wanted / demand) end
-- Smaller assignments need bursts beside what is charged.
local slack = least > goal and math.floor(limit / 40) + 1 or 2
local share = math.max(0, math.min(math.max(goal, least + slack), limit - others))
if mine and mine[1] > share then
  local rest = mine[1] - share + (tail and tail[1] or 0)
  local till = math.max(mine[3], tail and tail[2] or 0)
  last = math.max(last, till)
  redis.call('HSET', KEYS[1], 't' .. id, string.format('%.0f %.0f', rest, till))
end
redis.call('HSET', KEYS[1], 'h' .. id, string.format('%.0f %.0f %.0f', share, wanted, now + lasts))
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', last + 1000))
return {share, math.min(goal, share)}
