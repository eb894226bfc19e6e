-- The server's time in microseconds.
local clock = redis.call('TIME')
local time = clock[1] * 1000000 + clock[2]
