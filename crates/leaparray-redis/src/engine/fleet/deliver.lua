-- Takes a delivery. Follows `Archive::deliver`, which says why each step is needed. `time` is defined before.
--
-- KEYS: records, contacts, names of the process, and each second
-- ARGV: process, version on which the delivery builds, first second of the process, grace, delivery, history with its margin,
--       lost_after and departed in seconds, number of names that were sent before, record, number and bytes of each second,
--       and the names
-- Returns the time, the number of names, the number of processes that have delivered in the last `lost_after`, the outcome,
-- and the stored version and record after a conflict.
local records, contacts, names = KEYS[1], KEYS[2], KEYS[3]
local process, base, first = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local grace, delivery, history = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local lost_after, departed = tonumber(ARGV[7]) * 1000000, tonumber(ARGV[8]) * 1000000
local names_before, record = tonumber(ARGV[9]), ARGV[10]
local FIRST_SECOND, SECONDS, MAX_FORGOTTEN = 11, #KEYS - 3, 8

-- The records of processes that have delivered nothing for long: a bounded number, and that of this process.
local function forget(process)
  redis.call('HDEL', records, process)
  redis.call('ZREM', contacts, process)
end
local oldest = string.format('%.0f', time - departed)
for _, it in ipairs(redis.call('ZRANGEBYSCORE', contacts, '-inf', oldest, 'LIMIT', 0, MAX_FORGOTTEN)) do forget(it) end
local contact = redis.call('ZSCORE', contacts, process)
if contact and tonumber(contact) + departed <= time then forget(process) end

local stored = redis.call('HGET', records, process)
if not stored then redis.call('DEL', names) end
local names_len = redis.call('HLEN', names)
local function answer(outcome, stored)
  local live = redis.call('ZCOUNT', contacts, string.format('(%.0f', time - lost_after), '+inf')
  return { time, redis.call('HLEN', names), live, outcome, stored }
end
local version = stored and tonumber(string.match(stored, '^%d+')) or 0
if version > base then return answer('conflict', stored) end
if base == 0 and time >= (first + 1 + grace) * 1000000 then return answer('late', '') end
for i = 1, SECONDS do
  local ends = tonumber(ARGV[FIRST_SECOND + 2 * (i - 1)]) + 1
  if time >= (ends + delivery) * 1000000 then return answer('late', '') end
end
for i = 1, SECONDS do
  local ends = tonumber(ARGV[FIRST_SECOND + 2 * (i - 1)]) + 1
  if time < (ends - grace) * 1000000 then return answer('early', '') end
end
if names_len < names_before then return answer('names', '') end

local heard = tonumber(redis.call('HGET', records, 'heard') or 0)
local since = tonumber(redis.call('HGET', records, 'since') or 0)
local known = stored and tonumber(contact) or first * 1000000
local has_lost_data = version < base and known >= since
if heard + departed <= time or time - heard >= lost_after / 2 or has_lost_data then
  redis.call('HSET', records, 'since', string.format('%.0f', time))
end
redis.call('HSET', records, 'heard', string.format('%.0f', math.max(heard, time)))
redis.call('HSET', records, process, string.format('%.0f:', base + 1) .. record)
redis.call('ZADD', contacts, string.format('%.0f', time), process)
local number = names_before
for i = FIRST_SECOND + 2 * SECONDS, #ARGV do
  redis.call('HSETNX', names, number, ARGV[i])
  number = number + 1
end
for i = 1, SECONDS do
  local at = FIRST_SECOND + 2 * (i - 1)
  local expiry = (tonumber(ARGV[at]) + 1 + delivery + history) * 1000
  redis.call('HSET', KEYS[3 + i], process, ARGV[at + 1])
  redis.call('PEXPIREAT', KEYS[3 + i], string.format('%.0f', expiry))
end
for _, key in ipairs({ records, contacts, names }) do
  redis.call('PEXPIRE', key, string.format('%.0f', departed / 1000))
end
return answer('taken', '')
