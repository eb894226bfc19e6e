#!/usr/bin/env bash
# limits: a sliding-window counter of 100 a minute admits 200 requests within a minute
#
# Guess: a sliding-window counter repairs the edge of a fixed window, which admits twice its limit
# in a moment, up to a small error.
# Behaviour: the counter weighs the count of the previous minute as if its requests were evenly
# spread. If they came in the last tenth of a second, 100 more are admitted late in the next minute,
# when the first 100 are still less than a minute old. That is twice the limit, as with a fixed
# window.
# Version: limits 5.8.0, of PyPI.
# Here: `SlidingWindowLimiter` keeps a count for each bucket, and counts it in full until it has
# left.
. "$(dirname "$0")/lib.sh"

python_packages limits==5.8.0

program() { venv/bin/python - <<'END'; }
import time
from limits import RateLimitItemPerMinute, storage, strategies

def admitted(strategy):
    """The requests that are admitted of 200 at 59.9 s and 200 at 119.5 s, in a simulated minute."""
    limiter, limit = strategy(storage.MemoryStorage()), RateLimitItemPerMinute(100)
    counts = []
    for now in (6059.9, 6119.5):
        time.time = lambda: now
        counts.append(sum(limiter.hit(limit) for _ in range(200)))
    return counts

for strategy in (strategies.SlidingWindowCounterRateLimiter, strategies.MovingWindowRateLimiter):
    first, second = admitted(strategy)
    print(f"{strategy.__name__}: {first} + {second} in 59.6 s")
END

expect program <<'END'
SlidingWindowCounterRateLimiter: 100 + 100 in 59.6 s
MovingWindowRateLimiter: 100 + 0 in 59.6 s
END
