#!/usr/bin/env bash
# Prometheus: a counter that falls by 1 adds its whole value, one that is born at 500 adds 0
#
# Guess: `increase` is the difference of the counter between two times, up to rounding.
# Behaviour: each fall is a reset to 0, so after a fall from 1,000 to 999 the increase is 999. The
# first sample of a series is where counting begins: a counter that appears with 500 adds nothing,
# and those 500 are in no rate of any interval. A counter that is exposed as 0 before its first
# count has all.
# Version: Prometheus 2.42.0 (promtool, of Debian 12). The mirrors of Debian keep the newest point
# release only: if they no longer have this one, the script ends with status 2.
# Here: the counters of leaparray-prometheus continue if a resource was evicted and is listed again.
# The counts of a resource before its first scrape are in no rate, unless the service lists it at
# its start.
. "$(dirname "$0")/lib.sh"

debian_package prometheus=2.42.0+ds-5+deb12u1

# promtool evaluates each expression in simulated time, and fails if it has another value.
cat > test.yml <<'END'
evaluation_interval: 15s
tests:
  - interval: 15s
    input_series:
      - {series: falls, values: 1000 1000 999 999 999}
      - {series: born, values: _ _ 500 500 500}
      - {series: born_as_zero, values: 0 0 500 500 500}
    promql_expr_test:
      - {expr: "increase(falls[1m])", eval_time: 1m, exp_samples: [{labels: "{}", value: 999}]}
      - {expr: "resets(falls[1m])", eval_time: 1m, exp_samples: [{labels: "{}", value: 1}]}
      - {expr: "increase(born[1m])", eval_time: 1m, exp_samples: [{labels: "{}", value: 0}]}
      - {expr: "increase(born_as_zero[1m])", eval_time: 1m, exp_samples: [{labels: "{}", value: 500}]}
END

program() {
  root/usr/bin/promtool --version | grep -o 'promtool, version [0-9.]*'
  root/usr/bin/promtool test rules test.yml | grep .
}

expect program <<'END'
promtool, version 2.42.0
Unit Testing:  test.yml
  SUCCESS
END
