//! Properties of histograms of random response times.

use std::time::Duration;

use leaparray::{HistogramConfig, LatencyHistogram};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::histogram::case::Case;
use crate::histogram::case::oracle::Oracle;

/// Response times of any magnitude: 0 ns, whole numbers of nanoseconds that bins tell apart or not,
/// and more than 2⁶² ns.
fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..50_u64,
        (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift),
        // Powers of 2 in seconds, which are bounds at each scale, and their neighbours.
        (-9..33_i32, 0..3_u64).prop_map(|(exponent, more)| {
            let bound = 1_000_000_000_f64 * 2_f64.powi(exponent);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole")]
            let bound = bound as u64;
            bound - 1 + more
        }),
    ]
}

fn some_nanos() -> impl Strategy<Value = Vec<u64>> {
    vec(nanos(), 0..100)
}

fn scale() -> impl Strategy<Value = u8> {
    0..=HistogramConfig::MAX_SCALE
}

fn both(scale: u8, response_times: &[u64]) -> (LatencyHistogram, Oracle) {
    let mut histogram = LatencyHistogram::new(HistogramConfig::with_scale(scale).unwrap());
    let mut oracle = Oracle::new(scale.cast_signed());
    for &nanos in response_times {
        histogram.record(Duration::from_nanos(nanos));
        oracle.record(nanos, 1);
    }
    (histogram, oracle)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn quantiles_are_within_the_relative_error_of_the_sorted_response_times(
        scale in scale(), response_times in some_nanos(), denominator in 1..100_u64,
    ) {
        let (histogram, oracle) = both(scale, &response_times);
        for numerator in 0..=denominator {
            oracle.check_quantile(&histogram, numerator, denominator);
        }
    }

    #[test]
    fn merge_is_the_histogram_of_all_response_times(
        scales in [scale(), scale()], response_times in [some_nanos(), some_nanos()],
    ) {
        let [one, other] = [0, 1].map(|it| both(scales[it], &response_times[it]));
        let [mut forward, mut backward] = [one.0.clone(), other.0.clone()];
        forward.merge(&other.0);
        backward.merge(&one.0);
        let coarser = scales[0].min(scales[1]);
        let (expected, oracle) = both(coarser, &response_times.concat());
        prop_assert_eq!(&forward, &expected);
        prop_assert_eq!(&backward, &expected);
        oracle.check(&forward);
    }

    #[test]
    fn downscaled_is_the_histogram_of_the_coarser_scale(
        scale in scale(), steps in 0..=8_u8, response_times in some_nanos(),
    ) {
        let (histogram, _) = both(scale, &response_times);
        let coarser = scale.saturating_sub(steps);
        let downscaled = histogram.downscaled(coarser.cast_signed()).unwrap();
        prop_assert_eq!(&downscaled, &both(coarser, &response_times).0);
        // In one step or in several.
        let coarsest = histogram.downscaled(-10).unwrap();
        prop_assert_eq!(&downscaled.downscaled(-3).unwrap().downscaled(-10).unwrap(), &coarsest);
        prop_assert_eq!(coarsest.count(), histogram.count());
    }

    #[test]
    fn count_at_or_below_leaves_out_one_bin_at_most(
        scale in scale(), response_times in some_nanos(), limits in vec(nanos(), 20),
    ) {
        let (histogram, oracle) = both(scale, &response_times);
        for limit in limits.into_iter().chain(response_times) {
            oracle.check_count_at_or_below(&histogram, limit);
        }
        prop_assert_eq!(histogram.count_at_or_below(Duration::MAX), histogram.count());
    }

    #[test]
    fn recorded_merged_and_downscaled_histograms_agree_with_the_oracle(
        head in any::<[u8; Case::HEAD_LEN]>(), turns in vec(any::<[u8; Case::TURN_LEN]>(), 1..64),
    ) {
        Case::from_bytes(&[&head, turns.as_flattened()].concat()).check();
    }
}
