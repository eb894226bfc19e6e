//! The boundaries of the bins, compared with integers of any length.

use num_bigint::BigUint;

use super::bins::{Bins, COARSEST};
use super::config::HistogramConfig;
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

/// Returns the boundaries of a scale that are below 2⁶² ns, rounded down, in ascending order: the lower bounds of all bins
/// but the first.
fn boundaries(scale: u8) -> Vec<u64> {
    let bins = Bins::at(scale.cast_signed());
    let range = bins.index(1) + 1..=bins.index(MAX_NANOS);
    range.map(|index| bins.first(index) - 1).collect()
}

#[test]
fn boundaries_are_exact_roots() {
    for scale in SCALES {
        let first = Bins::at(scale.cast_signed()).index(1) + 1;
        // The numbers of the finest scales have up to 16,000 bits. Their boundaries in one octave are those in any other.
        let step = if scale > 6 { 61 } else { 1 };
        for (floor, index) in boundaries(scale).into_iter().zip(first..).step_by(step) {
            check_floor(scale, index, floor);
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
        // The lower bound of the first bin is below 1 ns, the upper bound of the last is above 2⁶² ns.
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
        assert_eq!(boundaries.len() + 1, layout.positions(), "scale {scale}");
        let expected = |nanos| boundaries.partition_point(|&it| it < nanos);
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
        assert_eq!([0, 1].map(|nanos| layout.position(nanos)), [0; 2]);
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
    assert_eq!([0, 1, 2, 3].map(|scale| Layout::at(scale).index(0)), [-30, -60, -120, -240]);
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
