#!/usr/bin/env bash
# hdrhistogram: the maximum of one value is above it, and the mean is another number
#
# Guess: the extremes are those of the recorded values, and of one value, the mean is that value.
# Behaviour: all are computed from the bins. The maximum and each quantile are the upper end of a
# bin, the minimum is a lower end, and the mean is of the middles of bins.
# Version: hdrhistogram 7.6.0.
# Here: a `LatencyHistogram` keeps exact extremes and an exact sum beside its bins, and a quantile
# is in the middle of its bin. A test that compares the two has to allow for a whole bin.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
hdrhistogram = { version = "=7.6.0", default-features = false }
END

program() { cargo_program <<'END'; }
fn main() {
    let mut histogram = hdrhistogram::Histogram::<u64>::new(2).unwrap();
    histogram.record(1_000_000).unwrap();
    println!("minimum {}", histogram.min());
    println!("mean    {}", histogram.mean());
    println!("median  {}", histogram.value_at_quantile(0.5));
    println!("maximum {}", histogram.max());
}
END

expect program <<'END'
minimum 999424
mean    1001472
median  1003519
maximum 1003519
END
