//! The refused requests of a node by reason, sorted into the seconds in which they were refused.
//!
//! A node counts its refused requests by second, and by reason without a time. A second is read
//! some time after its end, so a reading finds reasons of two kinds: those of the seconds that it
//! reads, and those of refusals after their end. The latter are carried to the next reading, where
//! they come first. So no second has more refusals with a reason than refusals. Which of the newest
//! reasons belong to the second is not known: they are divided in proportion.

use leaparray::node::Refusals;

/// The refused requests of a node up to its last reading.
#[derive(Clone, Copy, Default)]
pub(super) struct RefusedBefore {
    /// The requests that were refused after the end of the newest second.
    carried: Refusals,
}

/// The refused requests of the node that is being read.
#[derive(Default)]
pub(super) struct Refusing {
    /// The refused requests since the reading before.
    newly: Refusals,
    /// The seconds with refused requests, and how many.
    seconds: Vec<(u64, u64)>,
    /// Whether the reasons of these seconds are not known.
    is_first: bool,
}

impl Refusing {
    /// Begins a node, with the requests that its series has refused since the reading before. The
    /// first reading of all cannot tell in which seconds: it passes the number of those that were
    /// refused after the end of its newest second. Their reasons are taken for those of all.
    pub(super) fn begin(&mut self, newly: Refusals, later: Option<u64>) {
        self.newly = later.map_or(newly, |later| newly.portion(later));
        self.is_first = later.is_some();
        self.seconds.clear();
    }

    /// Adds a second with the number of its refused requests.
    pub(super) fn add(&mut self, second: u64, refused: u64) {
        if refused > 0 && !self.is_first {
            self.seconds.push((second, refused));
        }
    }

    /// Returns the refused requests by reason of each second for which some are known. Their sum
    /// is the number of the refused requests of the second, or smaller if no reason is known of
    /// some.
    pub(super) fn finish(
        &mut self,
        before: &mut RefusedBefore,
    ) -> impl Iterator<Item = (u64, Refusals)> {
        let refused = self.seconds.iter().map(|(_, count)| count).sum::<u64>();
        let early = before.carried.portion(refused);
        let late = self.newly.portion(refused - early.sum());
        // The rest of the carried refusals is in no second: they were recorded late.
        before.carried = self.newly.saturating_sub(&late);
        let mut rest = early;
        rest += &late;
        self.seconds.drain(..).filter_map(move |(second, count)| {
            let counts = rest.portion(count);
            rest = rest.saturating_sub(&counts);
            (counts.sum() > 0).then_some((second, counts))
        })
    }
}

#[cfg(test)]
mod tests {
    use leaparray::flow::Reason;

    use super::*;

    type ByReason = [u64; 6];

    fn refusals(counts: ByReason) -> Refusals {
        let mut refusals = Refusals::default();
        for (reason, count) in Reason::ALL.iter().zip(counts) {
            refusals[*reason] = count;
        }
        refusals
    }

    fn counts(refusals: Refusals) -> ByReason {
        let mut counts = ByReason::default();
        counts.iter_mut().zip(refusals.iter()).for_each(|(to, (_, count))| *to = count);
        counts
    }

    fn read(
        before: &mut RefusedBefore,
        newly: ByReason,
        seconds: &[(u64, u64)],
    ) -> Vec<(u64, ByReason)> {
        let mut refusing = Refusing::default();
        refusing.begin(refusals(newly), None);
        for &(second, count) in seconds {
            refusing.add(second, count);
        }
        refusing.finish(before).map(|(second, it)| (second, counts(it))).collect()
    }

    #[test]
    fn refusals_after_the_end_of_a_second_belong_to_the_next() {
        let mut before = RefusedBefore::default();
        // Four were refused after the end of the second: two of each reason.
        let found = read(&mut before, [6, 0, 0, 6, 0, 0], &[(10, 8)]);
        assert_eq!(found, [(10, [4, 0, 0, 4, 0, 0])]);
        let found = read(&mut before, [0, 0, 0, 3, 0, 0], &[(11, 6)]);
        assert_eq!(found, [(11, [2, 0, 0, 4, 0, 0])]);
        let found = read(&mut before, [0; 6], &[(12, 1)]);
        assert_eq!(found, [(12, [0, 0, 0, 1, 0, 0])]);
    }

    #[test]
    fn reading_of_several_seconds_divides_the_reasons_among_them() {
        let mut before = RefusedBefore::default();
        let found = read(&mut before, [0, 3, 0, 9, 0, 0], &[(10, 4), (12, 8)]);
        assert_eq!(found, [(10, [0, 1, 0, 3, 0, 0]), (12, [0, 2, 0, 6, 0, 0])]);
    }

    #[test]
    fn refusals_after_the_second_of_the_first_reading_belong_to_the_next() {
        let (mut before, mut refusing) = (RefusedBefore::default(), Refusing::default());
        refusing.begin(refusals([10, 0, 0, 30, 0, 0]), Some(4));
        refusing.add(10, 8);
        assert_eq!(refusing.finish(&mut before).collect::<Vec<_>>(), []);
        // Three were refused after the end of the second 11, and none after that of 12.
        let found = read(&mut before, [4, 0, 0, 15, 0, 0], &[(11, 20)]);
        assert_eq!(found, [(11, [4, 0, 0, 16, 0, 0])]);
        let found = read(&mut before, [5, 0, 0, 12, 0, 0], &[(12, 20)]);
        assert_eq!(found, [(12, [6, 0, 0, 14, 0, 0])]);
    }

    #[test]
    fn late_refusals_are_in_no_later_second() {
        let mut before = RefusedBefore::default();
        assert_eq!(read(&mut before, [5, 0, 0, 0, 0, 0], &[]), []);
        assert_eq!(read(&mut before, [0; 6], &[]), []);
        let found = read(&mut before, [0, 0, 0, 2, 0, 0], &[(12, 2)]);
        assert_eq!(found, [(12, [0, 0, 0, 2, 0, 0])]);
    }

    #[test]
    fn refusal_without_a_reason_gets_none() {
        let mut before = RefusedBefore::default();
        assert_eq!(read(&mut before, [0; 6], &[(10, 7)]), []);
        let found = read(&mut before, [1, 0, 0, 2, 0, 0], &[(11, 6)]);
        assert_eq!(found, [(11, [1, 0, 0, 2, 0, 0])]);
    }

    #[test]
    fn shares_add_up_at_the_largest_numbers() {
        let share = |of, number| counts(refusals(of).portion(number));
        let [first, second, ..] = share([u64::MAX, u64::MAX, 0, 0, 0, 7], u64::MAX);
        assert_eq!((first, second), (u64::MAX, 0));
        assert_eq!(share([1, 1, 1, 0, 0, 0], 2), [0, 1, 1, 0, 0, 0]);
        assert_eq!(share([0; 6], 5), [0; 6]);
    }
}
