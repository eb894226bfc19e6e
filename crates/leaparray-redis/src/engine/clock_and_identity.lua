-- The server's time in microseconds, and a number below 2^52 that names the run of the server as a primary: `run_id` changes
-- with a restart, and `master_replid` with a promotion. Both are drawn at random, so the sum changes with either.
local clock = redis.call('TIME')
local time = clock[1] * 1000000 + clock[2]
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local replication = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local identity = (tonumber(string.sub(run, 1, 13), 16) + tonumber(string.sub(replication, 1, 13), 16)) % 2 ^ 52
