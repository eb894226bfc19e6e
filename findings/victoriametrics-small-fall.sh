#!/usr/bin/env bash
# VictoriaMetrics: a counter that falls by less than an eighth adds nothing, though `resets` counts it
#
# Guess: each fall of a counter is a reset to 0, as for Prometheus, where the increase after a fall
# from 1,000 to 999 is 999. `increase` and `resets` agree.
# Behaviour: a fall by less than an eighth is taken for no reset, and adds nothing: from 1,000 to
# 876, the increase is 0. From 1,000 to 875, it is 875. `resets` counts both. So a counter that
# restarts, and is scraped next at 900, has lost these 900.
# Version: VictoriaMetrics 1.79.5 (of Debian 12). 1.145.0 (of Debian 14) does the same.
# Here: the counters of a process never fall, so both servers count the same. Of a process that has
# restarted, VictoriaMetrics may lose the counts until the next scrape.
. "$(dirname "$0")/victoria_metrics.sh"

start_victoria_metrics

program() {
  store falls_by_1 1000 1000 999 999
  store falls_by_124 1000 1000 876 876
  store falls_by_125 1000 1000 875 875
  store restarts_at_900 1000 1000 900 1100
  for series in falls_by_1 falls_by_124 falls_by_125 restarts_at_900; do
    echo "$series: increase $(query "increase($series[1m])" 45), resets $(query "resets($series[1m])" 45)"
  done
}

expect program <<'END'
falls_by_1: increase 0, resets 1
falls_by_124: increase 0, resets 1
falls_by_125: increase 875, resets 1
restarts_at_900: increase 200, resets 1
END
