//! A case: turns that are applied to three histograms and to an oracle of each, and a comparison
//! after each turn.
//!
//! The first three bytes are the scales of the histograms. Each turn has ten bytes:
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | modulo 8: record, record, record, record many, merge, downscale, clear, read; then modulo 3: the histogram; then modulo 3: the other one |
//! | 1 | how far the number is shifted to the right |
//! | 2–9 | a number: a response time in nanoseconds, a number of requests, steps to a coarser scale, or a quantile |

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "shares and errors are compared with what rounding allows"
)]

pub(crate) mod oracle;

use std::time::Duration;

use leaparray::{HistogramConfig, LatencyHistogram};
use oracle::Oracle;

/// The coarsest scale of any histogram.
const COARSEST: i8 = -10;

#[derive(Debug)]
pub(crate) struct Case {
    scales: [u8; Self::HEAD_LEN],
    turns: Vec<[u8; Self::TURN_LEN]>,
}

#[derive(Clone, Debug)]
struct Subject {
    histogram: LatencyHistogram,
    oracle: Oracle,
}

impl Case {
    pub(crate) const HEAD_LEN: usize = 3;
    pub(crate) const TURN_LEN: usize = 10;
    const MOST_TURNS: usize = 64;

    /// Reads a case. Scales that are missing are 0; part of a turn, and turns after 64, are
    /// ignored.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let (head, rest) = bytes.split_at(bytes.len().min(Self::HEAD_LEN));
        let mut scales = [0; Self::HEAD_LEN];
        scales[..head.len()].copy_from_slice(head);
        let turns = rest.chunks_exact(Self::TURN_LEN).take(Self::MOST_TURNS);
        Self { scales, turns: turns.flat_map(<[u8; Self::TURN_LEN]>::try_from).collect() }
    }

    /// Applies each turn, and panics if a histogram and its oracle differ.
    pub(crate) fn check(&self) {
        let mut subjects = self.scales.map(|scale| Subject::new(scale % 9));
        for turn in &self.turns {
            let [first, shift, number @ ..] = *turn;
            let (of, other) = (usize::from(first / 8 % 3), usize::from(first / 24 % 3));
            let number = u64::from_le_bytes(number) >> (shift % 64);
            let other = subjects[other].clone();
            subjects[of].apply(first % 8, number, &other);
            subjects[of].check(number);
        }
    }
}

impl Subject {
    fn new(scale: u8) -> Self {
        let config = HistogramConfig::with_scale(scale).unwrap();
        let oracle = Oracle::new(scale.cast_signed());
        Self { histogram: LatencyHistogram::new(config), oracle }
    }

    fn apply(&mut self, operation: u8, number: u64, other: &Self) {
        let Self { histogram, oracle } = self;
        match operation {
            0..3 => {
                histogram.record(Duration::from_nanos(number));
                oracle.record(number, 1);
            }
            3 => {
                // The total stays below 2⁵³, where ranks are exact.
                let count = number % (1 << 40);
                histogram.record_many(Duration::from_nanos(number), count);
                oracle.record(number, count);
            }
            4 if oracle_is_small(oracle, &other.oracle) => {
                histogram.merge(&other.histogram);
                oracle.merge(&other.oracle);
            }
            5 => {
                let scale = histogram.scale().saturating_sub_unsigned(number as u8 % 8);
                let scale = scale.max(COARSEST);
                *histogram = histogram.downscaled(scale).unwrap();
                oracle.downscale(scale);
            }
            6 => {
                histogram.clear();
                oracle.clear();
            }
            _ => {}
        }
    }

    fn check(&self, number: u64) {
        let Self { histogram, oracle } = self;
        oracle.check(histogram);
        let denominator = number % 1_000 + 1;
        for numerator in [0, number / 1_000 % (denominator + 1), denominator] {
            oracle.check_quantile(histogram, numerator, denominator);
        }
        oracle.check_count_at_or_below(histogram, number);
        let quantiles = [0.99, 0.5, 0.999, 0.0];
        assert_eq!(histogram.quantiles(quantiles), quantiles.map(|q| histogram.quantile(q)));
    }
}

/// Returns whether the sum of both totals is below 2⁵³, where ranks are exact.
fn oracle_is_small(one: &Oracle, other: &Oracle) -> bool {
    one.count() + other.count() < 1 << 52
}
