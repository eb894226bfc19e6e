#!/usr/bin/env bash
# limits: in a fixed window, a request that is refused for its cost uses up the rest of the window
#
# Guess: of 10 a minute, 6 are used. A request that costs 5 is refused and uses nothing, so one that
# costs 4 is admitted.
# Behaviour: the fixed window adds the cost first and compares then, so the refused request counts.
# All that follow are refused until the window ends, although only 6 of 10 were granted. The other
# two strategies admit the 4.
# Version: limits 5.8.0 (of PyPI).
# Here: a refusal takes no permits, whatever the limiter is and however many were asked for.
. "$(dirname "$0")/lib.sh"

python_packages limits==5.8.0

program() { python_program <<'END'; }
from limits import RateLimitItemPerMinute, storage, strategies

limit = RateLimitItemPerMinute(10)
for strategy in (
    strategies.FixedWindowRateLimiter,
    strategies.MovingWindowRateLimiter,
    strategies.SlidingWindowCounterRateLimiter,
):
    limiter = strategy(storage.MemoryStorage())
    costs = (6, 5, 4)
    granted = [limiter.hit(limit, cost=cost) for cost in costs]
    total = sum(cost for cost, it in zip(costs, granted) if it)
    print(f"{strategy.__name__}: {granted}, {total} of 10 granted")
END

expect program <<'END'
FixedWindowRateLimiter: [True, False, False], 6 of 10 granted
MovingWindowRateLimiter: [True, False, True], 10 of 10 granted
SlidingWindowCounterRateLimiter: [True, False, True], 10 of 10 granted
END
