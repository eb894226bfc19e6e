//! What became of it.

use std::ops::AddAssign;

use super::clock::Span;
use super::written::Written;

/// recorded + too many = summed + expired + late + lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Calls that returned.
    pub(super) recorded: u64,
    /// What the windows read.
    pub(super) summed: u64,
    /// Rightly in no window, as it was read too long after.
    pub(super) expired: u64,
    /// Of those, what the peer says came too late for its bucket.
    pub(super) late: u64,
    /// Missing, though a right window has them.
    pub(super) lost: u64,
    /// There, though no right window has so many.
    pub(super) too_many: u64,
    /// Calls that did not return.
    pub(super) panicked: u64,
    /// What the first of them said.
    pub(super) said: Option<String>,
}

impl Tally {
    /// Of a round: a window that was read in `read` had `summed` in it.
    pub(super) fn of(written: Written, summed: u64, read: Span) -> Self {
        let recorded = written.recorded();
        let lost = written.certainly_in(read).saturating_sub(summed);
        let too_many = summed.saturating_sub(written.possibly_in(read));
        let expired = recorded + too_many - summed - lost;
        let Written { panicked, said, .. } = written;
        Self { recorded, summed, expired, late: 0, lost, too_many, panicked, said }
    }

    /// So many of those expired were late.
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
        self.said = self.said.take().or(round.said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expired, lost, and too many, of three calls: one before the window, one on its edge, one in it.
    fn of_three(summed: u64) -> [u64; 3] {
        let mut written = Written::default();
        for (first, last) in [(100, 100), (100, 101), (101, 101)] {
            written.add(Span { first, last });
        }
        let tally = Tally::of(written, summed, Span::at(120));
        assert_eq!(tally.recorded + tally.too_many, summed + tally.expired + tally.lost);
        [tally.expired, tally.lost, tally.too_many]
    }

    #[test]
    fn only_what_cannot_be_right_is_lost_or_too_many() {
        assert_eq!(of_three(0), [2, 1, 0]);
        assert_eq!(of_three(1), [2, 0, 0]);
        assert_eq!(of_three(2), [1, 0, 0]);
        assert_eq!(of_three(3), [1, 0, 1]);
        assert_eq!(of_three(4), [1, 0, 2]);
    }
}
