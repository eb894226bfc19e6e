//! The messages.

use fastrand::Rng;

use super::{RoundTrips, Scenario, float, whole};

/// The mean round trip of nodes that are alike, in microseconds.
const ROUND_TRIP: u64 = 50_000;
/// The shortest and the longest mean round trips of nodes that are not, in microseconds.
const SHORTEST: f64 = 200.0;
const LONGEST: f64 = 250_000.0;
/// The bound of the time that a late delivery takes, in microseconds.
const LATE: u64 = 2_000_000;

/// Draws how messages are delivered: each on its own, so that they overtake each other.
#[derive(Debug)]
pub(super) struct Network {
    random: Rng,
    loss: f64,
    repeats: f64,
    late: f64,
    /// The mean round trip of each node.
    means: Vec<u64>,
    moves: bool,
    /// The time after which a node gives up a message without an answer, in microseconds.
    pub(super) time_out: u64,
}

impl Network {
    pub(super) fn new(scenario: &Scenario, random: Rng) -> Self {
        let (faults, nodes) = (&scenario.faults, scenario.nodes);
        let is_even = scenario.round_trips == RoundTrips::Even;
        let longest = match scenario.round_trips {
            RoundTrips::ByNode { longest } => 1e3 * f64::from(longest),
            _ => LONGEST,
        };
        let mean = |node: usize| {
            let at = float(node as u64) / float(nodes.max(2) as u64 - 1);
            if is_even { ROUND_TRIP } else { whole(SHORTEST * libm::pow(longest / SHORTEST, at)) }
        };
        let lease = scenario.config.bucket_micros() * u64::from(scenario.config.validity());
        Self {
            random,
            loss: faults.loss,
            repeats: faults.repeats,
            late: faults.late,
            means: (0..nodes).map(mean).collect(),
            moves: scenario.round_trips == RoundTrips::ByNodeAndTime,
            // As the limiter does by default, unless the round trips are known to be short.
            time_out: if is_even { 4 * ROUND_TRIP } else { lease.clamp(100_000, 1_000_000) },
        }
    }

    /// Gives each node the round trip of another one, if they change.
    pub(super) fn deal(&mut self) {
        if self.moves {
            self.random.shuffle(&mut self.means);
        }
    }

    /// Draws the delays of the deliveries of one message to or from a node: none, one or two.
    pub(super) fn deliveries(&mut self, node: usize) -> impl Iterator<Item = u64> + use<> {
        let is_first = self.random.f64() >= self.loss;
        let is_second = self.random.f64() < self.repeats;
        let mean = self.means[node];
        let delays =
            [is_first, is_second].map(|is_delivered| is_delivered.then(|| self.delay(mean)));
        delays.into_iter().flatten()
    }

    /// Draws a delay: half of the mean round trip, give or take a half of that.
    fn delay(&mut self, mean: u64) -> u64 {
        if self.random.f64() < self.late {
            return self.random.u64(..LATE);
        }
        let half = mean / 2;
        half / 2 + self.random.u64(..=half)
    }
}
