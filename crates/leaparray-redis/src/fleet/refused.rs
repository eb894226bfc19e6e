//! The refused permits of a node by reason, sorted into the seconds in which they were refused.
//!
//! A node counts its refused permits by second, and by reason without a time. A second is read
//! some time after its end, so a reading finds reasons of two kinds: those of the seconds that it
//! reads, and those of refusals after their end. The latter are carried to the next reading, where
//! they come first. So no second has more refusals with a reason than refusals. Which of the
//! newest reasons belong to the second is not known: they are divided in proportion.

use leaparray::node::Refusals;

/// The refused permits of a node up to its last reading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RefusedBefore {
    /// Those that were refused after the end of the newest second.
    carried: Refusals,
}

/// The refused permits of a reading that are not yet in a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsorted(Refusals);

impl RefusedBefore {
    /// Takes the refusals since the reading before. `refused` is the number of refused permits in
    /// the seconds of this one.
    pub(super) fn read(&mut self, newly: Refusals, refused: u64) -> Unsorted {
        let mut rest = self.carried.portion(refused);
        let late = newly.portion(refused - rest.sum());
        // The rest of the carried refusals is in no second: they were recorded late.
        self.carried = newly.saturating_sub(&late);
        rest += &late;
        Unsorted(rest)
    }
}

impl Unsorted {
    /// Returns the refused permits by reason of the next second, in which `refused` were refused.
    /// Their sum is that number, or smaller if no reason is known of some.
    pub(super) fn next(&mut self, refused: u64) -> Refusals {
        let counts = self.0.portion(refused);
        self.0 = self.0.saturating_sub(&counts);
        counts
    }
}

#[cfg(test)]
mod tests {
    use leaparray::flow::Reason::{Failing, LimitReached, QueueFull};

    use super::*;

    fn refusals(limit_reached: u64, failing: u64) -> Refusals {
        [(LimitReached, limit_reached), (Failing, failing)].into()
    }

    /// Reads the new refusals of each reason, with the refused permits of some seconds.
    fn read(before: &mut RefusedBefore, newly: (u64, u64), seconds: &[u64]) -> Vec<(u64, u64)> {
        let mut rest = before.read(refusals(newly.0, newly.1), seconds.iter().sum());
        let of_second = |&refused| {
            let found = rest.next(refused);
            (found[LimitReached], found[Failing])
        };
        seconds.iter().map(of_second).collect()
    }

    #[test]
    fn refusals_after_the_end_of_a_second_belong_to_the_next() {
        let mut before = RefusedBefore::default();
        // Four were refused after the end of the second: two of each reason.
        assert_eq!(read(&mut before, (6, 6), &[8]), [(4, 4)]);
        assert_eq!(read(&mut before, (0, 3), &[6]), [(2, 4)]);
        assert_eq!(read(&mut before, (0, 0), &[1]), [(0, 1)]);
    }

    #[test]
    fn reading_of_several_seconds_divides_the_reasons_among_them() {
        let mut before = RefusedBefore::default();
        assert_eq!(read(&mut before, (3, 9), &[4, 0, 8]), [(1, 3), (0, 0), (2, 6)]);
    }

    #[test]
    fn refusal_without_a_reason_gets_none() {
        let mut before = RefusedBefore::default();
        assert_eq!(read(&mut before, (0, 0), &[7]), [(0, 0)]);
        assert_eq!(read(&mut before, (1, 2), &[6]), [(1, 2)]);
    }

    #[test]
    fn late_refusals_are_in_no_later_second() {
        let mut before = RefusedBefore::default();
        assert_eq!(read(&mut before, (5, 0), &[]), []);
        assert_eq!(read(&mut before, (0, 0), &[]), []);
        assert_eq!(read(&mut before, (0, 2), &[2]), [(0, 2)]);
    }

    #[test]
    fn shares_add_up_at_the_largest_numbers() {
        let mut counts = refusals(u64::MAX, u64::MAX);
        counts[QueueFull] = 7;
        assert_eq!(counts.portion(u64::MAX).sum(), u64::MAX);
        assert_eq!(refusals(1, 1).portion(1), refusals(0, 1));
        assert_eq!(Refusals::default().portion(5), Refusals::default());
    }
}
