-- Returns fields of a hash. `time` is defined before.
--
-- KEYS: a second, or the names of a process
-- ARGV: the time in microseconds from which on the server has forgotten it, and the fields
if time >= tonumber(ARGV[1]) then return {} end
return redis.call('HMGET', KEYS[1], unpack(ARGV, 2))
