-- Returns names of the resources of processes.
--
-- KEYS: the names of each process
-- ARGV: for each of them the number of the first name, and how many
local reply = {}
for i, key in ipairs(KEYS) do
  local from, count = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local fields = {}
  for number = from, from + count - 1 do fields[#fields + 1] = number end
  reply[i] = count > 0 and redis.call('HMGET', key, unpack(fields)) or {}
end
return reply
