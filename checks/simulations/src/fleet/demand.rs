//! The requests.

use fastrand::Rng;

use super::{float, gap};

/// The exponent of Zipf's law, by which the demand is spread over the nodes.
pub(super) const EXPONENT: f64 = 1.1;
/// The time after which the shares of the demand are dealt anew, in microseconds.
pub(super) const DEAL_EVERY: u64 = 5_000_000;

/// Requests that arrive at random, at nodes whose shares follow Zipf's law.
#[derive(Debug)]
pub(super) struct Demand {
    random: Rng,
    per_second: f64,
    /// The cumulative weights of the ranks, and the node of each rank.
    weights: Vec<f64>,
    nodes: Vec<usize>,
}

impl Demand {
    pub(super) fn new(nodes: usize, per_second: f64, random: Rng) -> Self {
        let mut sum = 0.0;
        let weights = (1..=nodes as u64).map(|rank| {
            sum += 1.0 / libm::pow(float(rank), EXPONENT);
            sum
        });
        Self { random, per_second, weights: weights.collect(), nodes: (0..nodes).collect() }
    }

    /// Draws the time to the next request.
    pub(super) fn gap(&mut self) -> u64 {
        gap(&mut self.random, self.per_second)
    }

    /// Draws the node of a request.
    pub(super) fn node(&mut self) -> usize {
        let last = self.weights.len() - 1;
        let at = self.random.f64() * self.weights[last];
        self.nodes[self.weights.partition_point(|it| *it <= at).min(last)]
    }

    /// Deals the ranks anew.
    pub(super) fn deal(&mut self) {
        // In `u64`, so that the width of a pointer does not change the result.
        for last in (1..self.nodes.len()).rev() {
            let other = self.random.u64(..=last as u64);
            self.nodes.swap(last, usize::try_from(other).unwrap_or(last));
        }
    }
}
