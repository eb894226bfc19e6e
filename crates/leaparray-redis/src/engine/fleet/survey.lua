-- Returns what is known of all processes. `time` is defined before.
--
-- KEYS: records, contacts
-- ARGV: departed in seconds
-- Returns the time, since when the fleet was heard of, and process, time of its last delivery, version and record of each.
local oldest = string.format('(%.0f', time - tonumber(ARGV[1]) * 1000000)
local contacts = redis.call('ZRANGEBYSCORE', KEYS[2], oldest, '+inf', 'WITHSCORES')
local reply = { time, tonumber(redis.call('HGET', KEYS[1], 'since') or 0) }
for i = 1, #contacts, 2 do
  local stored = redis.call('HGET', KEYS[1], contacts[i])
  if stored then
    reply[#reply + 1] = contacts[i]
    reply[#reply + 1] = contacts[i + 1]
    reply[#reply + 1] = stored
  end
end
return reply
