#!/usr/bin/env bash
# prom-client: 99 % of the values are 1, and the quantile 0.9 of a summary is 810
#
# Guess: a t-digest is most exact at the tails. Up to a small error, a quantile is a value that was
# observed.
# Behaviour: equal values are one point of the digest, however many they are, and a quantile is
# interpolated between the points, in proportion to the rank. Between the 9,900 times 1 and the
# 100 times 1,000, it rises in a line. Times in whole milliseconds, and counts, are such values. If
# all values differ a little, the quantiles are right.
# Version: prom-client 15.1.3 (of npm).
# Here: a quantile of a `LatencyHistogram` is in the bin of a value that was recorded.
. "$(dirname "$0")/lib.sh"

node_packages prom-client@15.1.3

program() { node_program <<'END'; }
import prometheus from 'prom-client'

const quantiles = async (name, values) => {
  const summary = new prometheus.Summary({ name, help: name, percentiles: [0.5, 0.9, 0.999] })
  values.forEach((value) => summary.observe(value))
  const points = (await summary.get()).values.filter(({ labels }) => labels.quantile)
  const texts = points.map(({ labels, value }) => `${labels.quantile} is ${value.toFixed(1)}`)
  console.log(`${name}: ${texts.join(', ')}`)
}
const values = Array.from({ length: 10_000 }, (_, index) => (index % 100 === 99 ? 1_000 : 1))
await quantiles('repeated', values)
await quantiles('distinct', values.map((value, index) => value + index / 1e6))
END

expect program <<'END'
repeated: 0.5 is 11.0, 0.9 is 810.2, 0.999 is 1000.0
distinct: 0.5 is 1.0, 0.9 is 1.0, 0.999 is 1000.0
END
