#!/usr/bin/env bash
# hdrhistogram: after 9 billion calls of 1 ms, in counts of 32 bits, the median is 0
#
# Guess: counts saturate, as the documentation says, so the share of a full bin is too low. A
# quantile is still a value that was recorded.
# Behaviour: the total goes on in 64 bits, and a quantile has its rank in that total. For a rank
# that the bins do not reach, it is 0: first the high quantiles, then the median. The mean is the
# sum of the bins divided by the total. At a million calls a second, a bin of all calls is full
# after 72 minutes, and the quantile 0.99 is 0 within the next minute.
# Version: hdrhistogram 7.6.0.
# Here: the counts of a `LatencyHistogram` have 64 bits, a `CompactHistogram` widens its counts
# before one overflows, and a quantile has its rank in the sum of the counts.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
hdrhistogram = { version = "=7.6.0", default-features = false }
END

program() { cargo_program <<'END'; }
fn main() {
    let mut histogram = hdrhistogram::Histogram::<u32>::new(3).unwrap();
    for billions in 1..=9 {
        // Nanoseconds.
        histogram.record_n(1_000_000, 1_000_000_000).unwrap();
        if [4, 5, 9].contains(&billions) {
            let [median, high] = [0.5, 0.99].map(|quantile| histogram.value_at_quantile(quantile));
            let (count, mean, max) = (histogram.len(), histogram.mean(), histogram.max());
            println!("{count}: median {median}, 0.99 {high}, mean {mean:.0}, maximum {max}");
        }
    }
}
END

expect program <<'END'
4000000000: median 1000447, 0.99 1000447, mean 1000192, maximum 1000447
5000000000: median 1000447, 0.99 0, mean 859158, maximum 1000447
9000000000: median 0, 0.99 0, mean 477310, maximum 1000447
END
