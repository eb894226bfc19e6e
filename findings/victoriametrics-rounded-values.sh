#!/usr/bin/env bash
# VictoriaMetrics: a stored value is rounded by the values beside it, and a small one becomes 0
#
# Guess: a sample is a 64-bit float, and comes back as it was stored.
# Behaviour: the values of a block of a series become integers with one power of ten for all. Beside
# 10^15, the value 0.123456789 comes back as 0.123, and beside 10^12, 10^-9 as 0. Alone, both come
# back whole. A float without a short decimal form, such as 2/3, loses its last digits even alone.
# Whole numbers below 2^53 are exact.
# Version: VictoriaMetrics 1.79.5 (of Debian 12). 1.145.0 (of Debian 14) does the same.
# Here: the sums of response times come back rounded. To the unit, only counts can be compared
# (docs/COMPATIBILITY.md).
. "$(dirname "$0")/victoria_metrics.sh"

start_victoria_metrics

program() {
  store alone 0.123456789
  store beside 0.123456789 1e15
  store tiny_alone 0.000000001
  store tiny_beside 0.000000001 1e12
  store thirds 0.3333333333333333 0.6666666666666666
  store whole 9007199254740991 9007199254740881
  for series in alone beside tiny_alone tiny_beside thirds whole; do
    echo "$series: $(stored "$series")"
  done
}

expect program <<'END'
alone: 0.123456789
beside: 0.123,1000000000000000
tiny_alone: 0.000000001
tiny_beside: 0,1000000000000
thirds: 0.333333333333,0.666666666666
whole: 9007199254740991,9007199254740881
END
