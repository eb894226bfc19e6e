//! Tests of the bar chart.

use std::time::Duration;

use leaparray::LatencyHistogram;

use super::{BAR_LEN, MAX_BARS, plot};

fn histogram(rts: &[(u64, u64)]) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::default();
    for &(nanos, count) in rts {
        histogram.record_many(Duration::from_nanos(nanos), count);
    }
    histogram
}

/// The lines with a bar.
fn bars(text: &str) -> Vec<&str> {
    let lines: Vec<_> = text.lines().collect();
    lines[1..lines.len() - 1].to_vec()
}

fn len(bar: &str) -> usize {
    bar.matches('█').count()
}

fn count(bar: &str) -> u64 {
    bar.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn bins_have_bounds_counts_marks_and_bars() {
    let text = plot(&histogram(&[(500_000_000, 88), (900_000_000, 11), (16_000_000_000, 1)]));
    let expected = "    up to    count
 500.00ms       88  p50       ████████████████████████████████████████
 594.60ms        0
 707.11ms        0  mean
 840.90ms        0
    1.00s       11  p99       █████
    1.19s        0
    1.41s        0
    1.68s        0
    2.00s        0
    2.38s        0
    2.83s        0
    3.36s        0
    4.00s        0
    4.76s        0
    5.66s        0
    6.73s        0
    8.00s        0
    9.51s        0
   11.31s        0
   13.45s        0
   16.00s        1  p99.9     █
mean 699.00ms, p50 500.00ms, p99 897.14ms, p99.9 16.00s
";
    assert_eq!(text, expected);
}

#[test]
fn longest_and_shortest_response_times_fit_in_one_chart() {
    let text = plot(&histogram(&[(0, 1), (1 << 62, 1)]));
    let bars = bars(&text);
    assert!(bars.len() <= usize::try_from(MAX_BARS).unwrap(), "{text}");
    assert_eq!(bars.iter().map(|bar| count(bar)).sum::<u64>(), 2);
}

#[test]
fn bars_are_proportional_to_the_counts_and_never_empty_if_a_count_is_not() {
    let text = plot(&histogram(&[(1_000, 4_000), (2_000, 1_000), (4_000, 1), (8_000, 1)]));
    let lens: Vec<_> = bars(&text).into_iter().map(|bar| (count(bar), len(bar))).collect();
    for (count, expected) in [(4_000, BAR_LEN), (1_000, BAR_LEN / 4), (1, 1), (0, 0)] {
        assert!(lens.contains(&(count, expected)), "{text}");
    }
}

#[test]
fn chart_has_the_finest_scale_that_fits() {
    // Each in the middle of a bin at scale 2: the first one below a second, the other 23 or 24 bins
    // later.
    for (later, bins) in [(23, 24), (24, 13)] {
        let [first, last] =
            [0, later].map(|bin| Duration::from_secs_f64((f64::from(bin) / 4.0 - 0.125).exp2()));
        let mut histogram = LatencyHistogram::default();
        histogram.record(first);
        histogram.record(last);
        let text = plot(&histogram);
        assert_eq!(bars(&text).len(), bins, "{text}");
    }
}

#[test]
fn equal_response_times_have_one_bar_with_all_marks() {
    let text = plot(&histogram(&[(1_000_000, 7)]));
    assert!(text.contains("7  mean p50 p99 p99.9 █"), "{text}");
    assert_eq!(bars(&text).len(), 1);
}

#[test]
fn empty_histogram_has_no_chart() {
    assert_eq!(plot(&LatencyHistogram::default()), "no response times\n");
}
