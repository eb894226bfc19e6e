-- The server's time in microseconds, and a number below 2^52 that names the run of the server as a primary: `run_id` changes
-- with a restart, and `master_replid` with a promotion.
local clock = redis.call('TIME')
local time = clock[1] * 1000000 + clock[2]
local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
local run = string.match(info, 'run_id:(%x+)') .. string.match(info, 'master_replid:(%x+)')
local identity = tonumber(string.sub(redis.sha1hex(run), 1, 13), 16)
