-- Returns what processes have delivered of a second. `time` is defined before.
--
-- KEYS: a second
-- ARGV: the time in microseconds from which on the server has forgotten it, and the processes
if time >= tonumber(ARGV[1]) then return {} end
return redis.call('HMGET', KEYS[1], unpack(ARGV, 2))
