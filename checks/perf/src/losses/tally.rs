//! The outcome of the recorded calls.

use std::ops::AddAssign;

use super::clock::Span;
use super::written::Written;

/// The columns of the table: recorded + too many = summed + expired + late + lost.
///
/// If a window lost some records and has others too often, only the difference shows: `lost` and
/// `too_many` are lower bounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Calls that returned.
    pub(super) recorded: u64,
    /// The sums that the windows returned.
    pub(super) summed: u64,
    /// Calls that are missing from a window which does not cover them any longer, or may not.
    pub(super) expired: u64,
    /// Calls that were too late for their bucket, by the peer's own ledger. They are not in
    /// `expired`.
    pub(super) late: u64,
    /// Calls that are missing, although an exact window has them.
    pub(super) lost: u64,
    /// The excess of the sums over the largest that an exact window can have.
    pub(super) too_many: u64,
    /// Calls that panicked; they recorded nothing.
    pub(super) panicked: u64,
}

impl Tally {
    /// Computes the tally of a window in a round. A read of the window in the span `read` returned
    /// `summed`.
    pub(super) fn of(written: &Written, summed: u64, read: Span) -> Self {
        let recorded = written.recorded();
        let lost = written.certainly_in(read).saturating_sub(summed);
        let too_many = summed.saturating_sub(written.possibly_in(read));
        let expired = recorded + too_many - summed - lost;
        Self { recorded, summed, expired, late: 0, lost, too_many, panicked: written.panicked }
    }

    /// Moves `late` calls from expired to late.
    pub(super) fn set_late(&mut self, late: u64) {
        self.expired = self.expired.saturating_sub(late);
        self.late = late;
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, round: Self) {
        self.recorded += round.recorded;
        self.summed += round.summed;
        self.expired += round.expired;
        self.late += round.late;
        self.lost += round.lost;
        self.too_many += round.too_many;
        self.panicked += round.panicked;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns expired, lost and too many, for three calls: before the window as of 120, on its
    /// edge, and in it.
    fn of_three(summed: u64, read: Span) -> [u64; 3] {
        let mut written = Written::default();
        for (first, last) in [(100, 100), (100, 101), (101, 101)] {
            written.add(Span { first, last });
        }
        let tally = Tally::of(&written, summed, read);
        assert_eq!(tally.recorded + tally.too_many, summed + tally.expired + tally.lost);
        [tally.expired, tally.lost, tally.too_many]
    }

    #[test]
    fn only_impossible_sums_are_lost_or_too_many() {
        let outcomes = [0, 1, 2, 3, 4].map(|summed| of_three(summed, Span::at(120)));
        assert_eq!(outcomes, [[2, 1, 0], [2, 0, 0], [1, 0, 0], [1, 0, 1], [1, 0, 2]]);
        let outcomes = [0, 3].map(|summed| of_three(summed, Span { first: 120, last: 121 }));
        assert_eq!(outcomes, [[3, 0, 0], [1, 0, 1]]);
    }
}
