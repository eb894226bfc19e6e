//! The fates of messages.

use fastrand::Rng;

use super::{Faults, MICROS};

/// The time after which a process gives up a delivery without an answer, in microseconds.
pub(super) const PROCESS_TIME_OUT: u64 = MICROS;
/// The time after which a reader asks again, in microseconds.
pub(super) const READER_TIME_OUT: u64 = 50_000;
/// The bound of the time of a slow message, in microseconds.
const SLOW: u64 = 400_000;
/// The bound of the time after which a request arrives again, in microseconds.
const DUPLICATE: u64 = 60 * MICROS;

/// Draws how messages are delivered: each on its own, so that they overtake each other.
#[derive(Debug)]
pub(super) struct Network {
    random: Rng,
    loss: f64,
    duplicates: f64,
    slow: f64,
}

impl Network {
    pub(super) fn new(faults: &Faults, random: Rng) -> Self {
        let Faults { loss, duplicates, slow, .. } = *faults;
        Self { random, loss, duplicates, slow }
    }

    /// Draws the delays of the arrivals of a message of a process: none, one or two.
    pub(super) fn arrivals(&mut self) -> impl Iterator<Item = u64> + use<> {
        let first = self.arrival();
        let is_second = self.random.f64() < self.duplicates;
        let second = is_second.then(|| self.random.u64(..DUPLICATE));
        [first, second].into_iter().flatten()
    }

    /// Draws the delay of a message of a reader, unless it is lost. A reader is near the server:
    /// its messages take less time, and fewer of them are lost.
    pub(super) fn near_arrival(&mut self) -> Option<u64> {
        let (loss, slow) = (self.loss / 5.0, self.slow / 5.0);
        let is_lost = self.random.f64() < loss;
        let is_slow = self.random.f64() < slow;
        let delay = self.random.u64(if is_slow { 0..SLOW / 8 } else { 200..800 });
        (!is_lost).then_some(delay)
    }

    fn arrival(&mut self) -> Option<u64> {
        let is_lost = self.random.f64() < self.loss;
        let is_slow = self.random.f64() < self.slow;
        let delay = self.random.u64(if is_slow { 0..SLOW } else { 5_000..50_000 });
        (!is_lost).then_some(delay)
    }
}
