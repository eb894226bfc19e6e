-- The server's time in microseconds, and a number below 2^52 that names the run of the server as a primary: `run_id` changes
-- with a restart, and `master_replid` with a promotion. Both are drawn at random, so the sum changes with either.
local clock = redis.call('TIME')
local time = clock[1] * 1000000 + clock[2]
-- Finds plain text first: a pattern would be tried at each byte of the section.
local function field(section, name)
  local text = redis.call('INFO', section)
  local _, last = string.find(text, name, 1, true)
  return tonumber(string.sub(string.match(text, '^%x+', last + 1), 1, 13), 16)
end
local run = field('server', 'run_id:')
local replication = field('replication', 'master_replid:')
local identity = (run + replication) % 2 ^ 52
