//! The largest relative error of four quantiles against sorted response times.

use leaparray::MonotonicClock;
use leaparray_perf_page::Value;

use super::input;
use super::peers::{self, Peer, QUANTILES, Visitor};
use crate::goals::value;

/// The streams of response times.
const STREAMS: u64 = 100;
/// The response times of a stream. With 1,000 n + 1 of them, the rank of each quantile is a whole
/// number, so all definitions of a rank agree.
const RTS: usize = 10_001;

/// The name of each peer, and the largest error of its quantiles, if it has any.
pub(super) type Errors = Vec<(&'static str, Option<f64>)>;

/// Computes the errors of all peers.
pub(super) fn measure(clock: &MonotonicClock) -> Errors {
    let streams = (0..STREAMS).map(|seed| Stream::new(seed + 1)).collect();
    let mut largest = Largest { clock, streams, errors: Vec::new() };
    peers::visit_all(&mut largest);
    largest.errors
}

/// Returns the errors as values, in percent.
pub(super) fn values(errors: &Errors) -> Vec<Value> {
    let percent = |error: f64| (error * 10_000.0).round() / 100.0;
    let values = errors.iter().filter_map(|(name, error)| {
        Some(value(format!("largest error of {name}"), percent((*error)?), "%", None))
    });
    values.collect()
}

struct Stream {
    rts: Vec<u32>,
    quantiles: [f64; 4],
}

impl Stream {
    fn new(seed: u64) -> Self {
        let rts: Vec<u32> = input::stream(seed).take(RTS).collect();
        let mut sorted = rts.clone();
        sorted.sort_unstable();
        let quantiles = QUANTILES.map(|q| sorted[rank(q, RTS) - 1].into());
        Self { rts, quantiles }
    }

    /// Returns the largest relative error of estimates.
    fn error(&self, estimates: [f64; 4]) -> f64 {
        let errors =
            estimates.iter().zip(self.quantiles).map(|(it, exact)| (it / exact - 1.0).abs());
        largest(errors)
    }
}

/// Returns the largest of errors. It is NaN if one of them is, as from an empty histogram.
fn largest(errors: impl IntoIterator<Item = f64>) -> f64 {
    errors.into_iter().max_by(f64::total_cmp).unwrap_or(f64::NAN)
}

/// Returns the nearest rank of a quantile, from 1 on.
fn rank(q: f64, count: usize) -> usize {
    (q * count as f64).ceil() as usize
}

struct Largest<'a> {
    clock: &'a MonotonicClock,
    streams: Vec<Stream>,
    errors: Errors,
}

impl Visitor for Largest<'_> {
    fn visit<P: Peer>(&mut self) {
        let errors = self.streams.iter().map(|stream| {
            let peer = P::new(self.clock);
            peer.fill(&stream.rts);
            Some(stream.error(peer.estimates()?))
        });
        let errors: Option<Vec<_>> = errors.collect();
        self.errors.push((P::NAME, errors.map(largest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_of_a_rank_agree() {
        for q in QUANTILES {
            assert_eq!(rank(q, RTS), (q * (RTS - 1) as f64) as usize + 1, "{q}");
        }
    }

    #[test]
    fn error_is_the_largest_of_the_four() {
        let stream = Stream { rts: Vec::new(), quantiles: [100.0, 200.0, 400.0, 1_000.0] };
        assert!((stream.error([101.0, 190.0, 404.0, 990.0]) - 0.05).abs() < 1e-9);
        assert!(stream.error([f64::NAN, 200.0, 400.0, 1_000.0]).is_nan());
    }
}
