#!/usr/bin/env bash
# VictoriaMetrics: a counter that appears with 9 adds 9, one that appears with 10 adds 0
#
# Guess: the first sample of a counter counts either always, as an increase from 0, or never, as for
# Prometheus; and `increase` is `rate` times the window.
# Behaviour: the first sample counts if it is below 10 plus ten times the next difference. So a
# counter that appears with 9 and stands still adds 9, and one with 10 adds nothing. After 500 and
# 549, the increase is 49; after 500 and 550, it is 550. `rate` never counts the first sample, and
# divides by the time between the samples in place of the window.
# Version: VictoriaMetrics 1.79.5 (of Debian 12). 1.145.0 (of Debian 14) does the same.
# Here: a service lists its resources at its start. Its counters are then scraped as 0 first, which
# every server counts alike.
. "$(dirname "$0")/victoria_metrics.sh"

start_victoria_metrics

program() {
  store born_at_9 9 9 9
  store born_at_10 10 10 10
  store born_at_500_then_549 500 549 549
  store born_at_500_then_550 500 550 550
  store born_as_0 0 500 500
  for series in born_at_9 born_at_10 born_at_500_then_549 born_at_500_then_550 born_as_0; do
    echo "$series: increase $(query "increase($series[1m])" 30), rate × 60 s $(query "round(60 * rate($series[1m]))" 30)"
  done
}

expect program <<'END'
born_at_9: increase 9, rate × 60 s 0
born_at_10: increase 0, rate × 60 s 0
born_at_500_then_549: increase 49, rate × 60 s 98
born_at_500_then_550: increase 550, rate × 60 s 100
born_as_0: increase 500, rate × 60 s 1000
END
