//! The messages.

use fastrand::Rng;

use super::Faults;

/// The mean round trip, in microseconds.
pub(super) const ROUND_TRIP: u64 = 50_000;
/// The time after which a node gives up a message without an answer, in microseconds.
pub(super) const TIME_OUT: u64 = 4 * ROUND_TRIP;
/// The bound of the time that a late delivery takes, in microseconds.
const LATE: u64 = 2_000_000;

/// Draws how messages are delivered: each on its own, so that they overtake each other.
#[derive(Debug)]
pub(super) struct Network {
    random: Rng,
    loss: f64,
    repeats: f64,
    late: f64,
}

impl Network {
    pub(super) const fn new(faults: &Faults, random: Rng) -> Self {
        Self { random, loss: faults.loss, repeats: faults.repeats, late: faults.late }
    }

    /// Draws the delays of the deliveries of one message: none, one or two.
    pub(super) fn deliveries(&mut self) -> impl Iterator<Item = u64> + use<> {
        let is_first = self.random.f64() >= self.loss;
        let is_second = self.random.f64() < self.repeats;
        let delays = [is_first, is_second].map(|is_delivered| is_delivered.then(|| self.delay()));
        delays.into_iter().flatten()
    }

    /// Draws a delay: half of the mean round trip, give or take a half of that.
    fn delay(&mut self) -> u64 {
        if self.random.f64() < self.late {
            return self.random.u64(..LATE);
        }
        let half = ROUND_TRIP / 2;
        half / 2 + self.random.u64(..=half)
    }
}
