//! The shares of the instances, of one bucket: their sum is at most the limit.

use fastrand::Rng;
use leaparray::Timestamp;

/// The shares that instances may still use. An instance that starts again has another number.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    /// The number of the instance, the units, and until when.
    shares: Vec<(u64, u64, Timestamp)>,
}

impl Store {
    /// Returns a share of the limit for an instance: at most what the others leave. It replaces the
    /// last share of the instance, whose surplus may be used until that share ends.
    pub(super) fn ask(
        &mut self,
        random: &mut Rng,
        number: u64,
        wanted: u64,
        limit: u64,
        (now, until): (Timestamp, Timestamp),
    ) -> u64 {
        self.shares.retain(|it| now < it.2);
        let of_others = self.shares.iter().filter(|it| it.0 != number).map(|it| it.1);
        let others: u64 = of_others.sum();
        let mine: Vec<_> = self.shares.iter().filter(|it| it.0 == number).copied().collect();
        // What it has given up, and may have assigned.
        let most = limit.saturating_sub(others);
        let units = match random.u8(0..4) {
            0 => random.u64(0..=most),
            _ => wanted.min(most),
        };
        let before = mine.iter().map(|it| it.1).sum::<u64>();
        self.shares.retain(|it| it.0 != number);
        self.shares.push((number, units, until));
        if before > units {
            let last = mine.iter().map(|it| it.2).max().unwrap_or(until);
            self.shares.push((number, before - units, last));
        }
        units
    }
}
