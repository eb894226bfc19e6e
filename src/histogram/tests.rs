//! The boundaries of the bins, compared with integers of any length, and what depends on them.

use std::time::Duration;

use num_bigint::BigUint;

use super::bins::{Bins, COARSEST};
use super::config::HistogramConfig;
use super::latency::LatencyHistogram;
use super::layout::{Layout, MAX_NANOS};

const SCALES: std::ops::RangeInclusive<u8> = 0..=HistogramConfig::MAX_SCALE;

/// Panics unless `floor` is 10⁹ · 2^(index/2^scale), rounded down.
///
/// With S = 2^scale, that is floor^S ≤ 10^(9S) · 2^index < (floor + 1)^S.
fn check_floor(scale: u8, index: i32, floor: u64) {
    let power = 1 << scale;
    let mut left = [floor, floor + 1].map(|it| BigUint::from(it).pow(power));
    let mut right = BigUint::from(10_u32).pow(9 * power);
    if index < 0 {
        left = left.map(|it| it << index.unsigned_abs());
    } else {
        right <<= index.unsigned_abs();
    }
    assert!(left[0] <= right && right < left[1], "scale {scale}, index {index}: {floor}");
}

/// Returns the boundaries of a scale that are below 2⁶² ns, rounded down, in ascending order: the
/// lower bounds of all bins but the first.
fn boundaries(scale: u8) -> Vec<u64> {
    let bins = Bins::at(scale.cast_signed());
    let range = bins.index(1) + 1..=bins.index(MAX_NANOS);
    range.map(|index| bins.first(index) - 1).collect()
}

#[test]
fn boundaries_are_exact_roots() {
    for scale in SCALES {
        let first = Bins::at(scale.cast_signed()).index(1) + 1;
        // The numbers of the finest scales have up to 16,000 bits. Their boundaries in one octave
        // are those in any other.
        let step = if scale > 6 { 61 } else { 1 };
        for (floor, index) in boundaries(scale).into_iter().zip(first..).step_by(step) {
            check_floor(scale, index, floor);
        }
    }
}

#[test]
fn index_of_each_octave_is_that_of_its_first_nanosecond() {
    for scale in COARSEST..=8 {
        let bins = Bins::at(scale);
        for octave in 0..=62 {
            assert_eq!(bins.index_of_octave(octave), bins.index(1 << octave), "{scale}, {octave}");
        }
    }
}

#[test]
fn octave_of_the_finest_scale_is_exact() {
    let bins = Bins::at(8);
    let last = bins.index(MAX_NANOS);
    for index in last - 255..=last {
        check_floor(8, index, bins.first(index) - 1);
    }
}

#[test]
fn first_and_last_bins_hold_the_shortest_and_the_longest_response_time() {
    for scale in SCALES {
        let bins = Bins::at(scale.cast_signed());
        let [first, last] = [1, MAX_NANOS].map(|nanos| bins.index(nanos));
        assert!(bins.first(first) <= 1 && bins.last(last) >= MAX_NANOS, "scale {scale}");
        // The lower bound of the first bin is below 1 ns, the upper bound of the last is above 2⁶²
        // ns.
        check_floor(scale, first, 0);
        let power = 1 << scale;
        let upper = BigUint::from(10_u32).pow(9 * power) << (last + 1).unsigned_abs();
        assert!(upper > BigUint::from(MAX_NANOS).pow(power), "scale {scale}");
    }
}

#[test]
fn position_changes_at_each_boundary_and_only_there() {
    for scale in SCALES {
        let layout = Layout::at(scale);
        let boundaries = boundaries(scale);
        let first = layout.position(1);
        assert_eq!(first + boundaries.len() + 1, layout.positions(), "scale {scale}");
        let expected = |nanos| first + boundaries.partition_point(|&it| it < nanos);
        for &floor in &boundaries {
            for nanos in [floor.saturating_sub(1), floor, floor + 1, floor + 2] {
                let nanos = nanos.max(1);
                assert_eq!(layout.position(nanos), expected(nanos), "scale {scale}, {nanos} ns");
            }
        }
    }
}

#[test]
fn response_times_out_of_range_are_at_the_ends() {
    for scale in SCALES {
        let layout = Layout::at(scale);
        assert_eq!(layout.position(0), layout.position(1), "scale {scale}");
        let last = layout.positions() - 1;
        let longest = [MAX_NANOS, MAX_NANOS + 1, 1 << 63, u64::MAX];
        assert_eq!(longest.map(|nanos| layout.position(nanos)), [last; 4], "scale {scale}");
    }
}

#[test]
fn positions_are_indices_of_opentelemetry() {
    for scale in SCALES {
        let layout = Layout::at(scale);
        let index = |nanos| layout.index(layout.position(nanos));
        // A power of 2 is the upper bound of its bin.
        assert_eq!([1_000_000_000, 1_000_000_001].map(index), [-1, 0], "scale {scale}");
        let per_octave = 1 << scale;
        assert_eq!([500_000_000, 2_000_000_000].map(index), [-per_octave - 1, per_octave - 1]);
    }
    // The bin of 1 ns, by logarithms: log₂ 10⁻⁹ is −29.897.
    let first = |scale| Layout::at(scale).index(Layout::at(scale).position(1));
    assert_eq!([0, 1, 2, 3, 4, 8].map(first), [-30, -60, -120, -240, -479, -7_654]);
}

#[test]
fn index_of_a_coarser_scale_is_half_rounded_down() {
    for scale in COARSEST..8 {
        let [coarser, finer] = [scale, scale + 1].map(Bins::at);
        for nanos in (0..62).flat_map(|e| [1 << e, (1 << e) + 1, 3 << e]) {
            let index = finer.index(nanos);
            assert_eq!(coarser.index(nanos), index.div_euclid(2), "scale {scale}, {nanos} ns");
            let union = [2 * (index >> 1), 2 * (index >> 1) + 1];
            assert_eq!(coarser.first(index >> 1), finer.first(union[0]));
            assert_eq!(coarser.last(index >> 1), finer.last(union[1]));
        }
    }
}

#[test]
fn bounds_in_seconds_are_powers_of_the_base() {
    for scale in COARSEST..=8 {
        let bins = Bins::at(scale);
        let first = bins.index(1);
        for index in first..=bins.index(MAX_NANOS) + 1 {
            let expected = (f64::from(index) * (-f64::from(scale)).exp2()).exp2();
            let bound = bins.lower(index);
            let is_close = (bound - expected).abs() <= expected * 1e-13;
            assert!(
                is_close || bound.to_bits() == expected.to_bits(),
                "scale {scale}, {index}: {bound}"
            );
        }
    }
    let ends = [-1, 0, 1].map(|index| Bins::at(COARSEST).lower(index).to_bits());
    assert_eq!(ends, [f64::from_bits(1 << 50), 1.0, f64::INFINITY].map(f64::to_bits));
}

/// A histogram of the response times 1 ns, 2 ns, … 2⁶² ns, and their successors.
fn wide(scale: u8) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new(HistogramConfig::with_scale(scale).unwrap());
    for nanos in (0..62).flat_map(|e| [1 << e, (1 << e) + 1]) {
        histogram.record(Duration::from_nanos(nanos));
    }
    histogram
}

#[test]
fn count_at_or_below_the_end_of_a_bin_is_exact() {
    for scale in SCALES {
        let histogram = wide(scale);
        let bins = Bins::at(scale.cast_signed());
        let mut expected = 0;
        for bucket in histogram.buckets() {
            let [first, last] = [bins.first(bucket.index), bins.last(bucket.index)];
            let count = |nanos| histogram.count_at_or_below(Duration::from_nanos(nanos));
            assert_eq!(count(first - 1), expected, "scale {scale}, {bucket:?}");
            expected += bucket.count;
            assert_eq!(count(last), expected, "scale {scale}, {bucket:?}");
        }
        assert_eq!(expected, histogram.count());
    }
}

/// Replaces a histogram by two positions with a count and one without on each side.
fn set(histogram: &mut LatencyHistogram, extremes: [Option<u64>; 2]) {
    let config = HistogramConfig::with_scale(0).unwrap();
    let layout = config.layout();
    let first = layout.position(1_000) - 1;
    let [min, max] = extremes;
    histogram.set(config, first, &[0, 2, 0, 1, 0], 5_900, min, max);
}

#[test]
fn set_replaces_everything() {
    let mut expected = LatencyHistogram::new(HistogramConfig::with_scale(0).unwrap());
    for nanos in [1_000, 1_001, 3_899] {
        expected.record(Duration::from_nanos(nanos));
    }
    let mut histogram = wide(8);
    set(&mut histogram, [Some(1_000), Some(3_899)]);
    assert_eq!(histogram, expected);
    histogram.set(HistogramConfig::default(), 7, &[0; 9], 3, None, Some(2));
    assert_eq!(histogram, LatencyHistogram::default(), "nothing but empty bins");
}

#[test]
fn extreme_that_is_not_in_its_bin_is_the_bound_of_the_bin() {
    // 10⁹ · 2⁻²⁰ is 953.7, and 10⁹ · 2⁻¹⁷ is 7,629.4.
    for extremes in [[None, None], [Some(3), Some(1 << 40)], [Some(4_000), Some(1_000)]] {
        let mut histogram = LatencyHistogram::default();
        set(&mut histogram, extremes);
        let [min, max] = [954, 7_629].map(Duration::from_nanos);
        assert_eq!((histogram.min(), histogram.max()), (Some(min), Some(max)));
        assert_eq!((histogram.count(), histogram.quantile(0.0)), (3, Some(min)));
    }
}

#[test]
fn set_keeps_the_memory() {
    let mut histogram = wide(8);
    let capacity = histogram.counts.capacity();
    set(&mut histogram, [None, None]);
    histogram.clear();
    assert_eq!(histogram.counts.capacity(), capacity);
}

/// The sum at one scale is added without a condition for each bin.
#[test]
fn merge_at_one_scale_is_the_histogram_of_both() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..200 {
        let mut both = LatencyHistogram::default();
        let [mut one, other] = [(); 2].map(|()| {
            let mut part = LatencyHistogram::default();
            for _ in 0..random.u32(..20) {
                let rt = Duration::from_nanos(1 << random.u32(..40) | random.u64(..1_000));
                part.record(rt);
                both.record(rt);
            }
            part
        });
        one.merge(&other);
        assert_eq!(one, both);
    }
}

/// Short response times are estimated in 64 bits.
#[test]
fn quantile_is_the_same_in_64_and_in_128_bits() {
    let mut random = fastrand::Rng::with_seed(8);
    for _ in 0..2_000 {
        let mut histogram = LatencyHistogram::default();
        for _ in 0..3 {
            histogram.record(Duration::from_nanos(random.u64(1..1 << 31)));
        }
        let median = histogram.quantile(0.5).unwrap().as_nanos();
        let mut indices = histogram.counts.iter();
        let (first, count) = indices.next().unwrap();
        let index = if count > 1 { first } else { indices.next().unwrap().0 };
        let a = u128::from(histogram.bins.first(index).max(histogram.min));
        let b = u128::from(histogram.bins.last(index).min(histogram.max));
        assert_eq!(median, (4 * a * b + a + b) / (2 * (a + b)));
    }
}
