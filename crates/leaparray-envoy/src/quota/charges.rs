//! Charges that outlive their assignments.

use std::collections::BTreeMap;
use std::time::Duration;

use leaparray::Timestamp;

/// Charges that end at given times.
#[derive(Debug, Default)]
pub(super) struct Charges {
    /// The charge that ends at each time.
    ends: BTreeMap<Timestamp, u64>,
    total: u64,
}

impl Charges {
    /// The number of different ends that are kept apart in the longest time of a charge.
    const GRAIN: u32 = 256;

    /// Charges `units` until `end`, or a little longer: up to a 256th of `longest`.
    pub(super) fn add(&mut self, units: u64, end: Timestamp, longest: Duration) {
        if units == 0 {
            return;
        }
        let grain = (longest / Self::GRAIN).max(Duration::from_millis(1)).as_nanos();
        let grain = u64::try_from(grain).unwrap_or(u64::MAX);
        let end = end.as_nanos().div_ceil(grain).saturating_mul(grain);
        *self.ends.entry(Timestamp::from_nanos(end)).or_default() += units;
        self.total += units;
    }

    /// Ends what ends by `now`.
    pub(super) fn end(&mut self, now: Timestamp) {
        while let Some(first) = self.ends.first_entry()
            && *first.key() <= now
        {
            self.total -= first.remove();
        }
    }

    pub(super) const fn total(&self) -> u64 {
        self.total
    }
}
