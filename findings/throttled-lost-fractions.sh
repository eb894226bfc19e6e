#!/usr/bin/env bash
# throttled-py: a bucket of 59 requests a minute admits 30 a minute
#
# Guess: under a constant load above its limit, a token bucket admits its rate.
# Behaviour: the bucket counts whole seconds and whole tokens. Each admission rounds the tokens of
# the time since the last one down, and starts a new second, so the fraction is lost: at 0.98 tokens
# a second, there is none after one second, and one after two. All rates of 31 to 59 a minute are
# 30 a minute, and those of 61 to 119 are 60.
# Version: throttled-py 3.5.0 (of PyPI).
# Here: no fraction of a permit is lost: a `TokenBucket` keeps the time at which it is full again.
. "$(dirname "$0")/lib.sh"

python_packages throttled-py==3.5.0

program() { python_program <<'END'; }
from throttled import RateLimiterType, Throttled, rate_limiter, store, utils

now = 1_000_000
utils.now_sec = lambda: now

def admitted(using, quota):
    """The requests that are admitted in the second minute, of ten in each second."""
    global now
    limiter = Throttled(key="key", using=using, quota=quota, store=store.MemoryStore())
    counts = []
    for _minute in range(2):
        counts.append(0)
        for _second in range(60):
            now += 1
            counts[-1] += sum(not limiter.limit().limited for _request in range(10))
    return counts[1]

for using in (RateLimiterType.TOKEN_BUCKET, RateLimiterType.LEAKING_BUCKET):
    limits = (30, 31, 59, 60, 61, 119, 120)
    counts = {limit: admitted(using.value, rate_limiter.per_min(limit, burst=2)) for limit in limits}
    print(f"{using.value}: {counts}")
END

expect program <<'END'
token_bucket: {30: 30, 31: 30, 59: 30, 60: 60, 61: 60, 119: 60, 120: 120}
leaking_bucket: {30: 30, 31: 30, 59: 30, 60: 60, 61: 60, 119: 60, 120: 120}
END
