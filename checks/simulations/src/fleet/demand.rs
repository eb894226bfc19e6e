//! The requests.

use fastrand::Rng;

use super::{Scenario, Sizes, float, gap, whole};

/// The exponent of Zipf's law, by which the demand is spread over the nodes.
pub(super) const EXPONENT: f64 = 1.1;
/// The time after which the shares of the demand are dealt anew, in microseconds.
pub(super) const DEAL_EVERY: u64 = 5_000_000;

/// Requests that arrive at random, at nodes whose shares follow Zipf's law.
#[derive(Debug)]
pub(super) struct Demand {
    random: Rng,
    /// Draws the sizes.
    sizes: Rng,
    /// The largest request.
    largest: u64,
    per_second: f64,
    /// The cumulative weights of the ranks, and the node of each rank.
    weights: Vec<f64>,
    nodes: Vec<usize>,
}

impl Demand {
    pub(super) fn new(scenario: &Scenario, random: Rng, sizes: Rng) -> Self {
        let nodes = scenario.nodes;
        let largest = match scenario.sizes {
            Sizes::One => 1,
            Sizes::HeavyTail => (scenario.config.limit() / 10).max(1),
        };
        // The mean is the sum of the probabilities of k or more.
        let rest = 1.0 / float(largest + 1);
        let mean: f64 = (1..=largest).map(|k| (1.0 / float(k) - rest) / (1.0 - rest)).sum();
        let per_second = scenario.demand / mean;
        let mut sum = 0.0;
        let weights = (1..=nodes as u64).map(|rank| {
            sum += 1.0 / libm::pow(float(rank), EXPONENT);
            sum
        });
        let weights = weights.collect();
        Self { random, sizes, largest, per_second, weights, nodes: (0..nodes).collect() }
    }

    /// Draws the permits of a request.
    pub(super) fn size(&mut self) -> u64 {
        if self.largest == 1 {
            return 1;
        }
        let rest = 1.0 / float(self.largest + 1);
        whole(1.0 / (1.0 - self.sizes.f64() * (1.0 - rest))).clamp(1, self.largest)
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
