//! The permits of the hungry tenants, by the epoch in which each was refused last.

use super::table::{EPOCHS, Word};
use crate::sync::{AtomicU64, Ordering};

const USE_BITS: u32 = 49;
const USE: u64 = (1 << USE_BITS) - 1;

/// The permits of the tenants that were refused last in an epoch: `{ epoch: 15, in use: 49 }`.
///
/// The permits are a number modulo 2⁴⁹: they are below 0 for a moment if a permit is given back
/// between the flag of its tenant and the addition of what the tenant holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EpochUse(u64);

impl EpochUse {
    const fn of(epoch: u64, permits: u64) -> Self {
        Self(epoch << USE_BITS | permits & USE)
    }

    const fn epoch(self) -> u64 {
        self.0 >> USE_BITS
    }

    /// Returns the word after `more` permits of tenants that were refused last in `epoch`. `None`
    /// if the word is of a later epoch: those tenants are not hungry any more.
    const fn plus(self, epoch: u64, more: u64) -> Option<Self> {
        match epoch.wrapping_sub(self.epoch()) % EPOCHS {
            0 => Some(Self::of(epoch, self.0.wrapping_add(more))),
            ahead if ahead < EPOCHS / 2 => Some(Self::of(epoch, more)),
            _ => None,
        }
    }

    /// Returns the permits, with their sign, if the word is of one of the last two epochs.
    const fn of_hungry(self, epoch: u64) -> i64 {
        if epoch.wrapping_sub(self.epoch()) % EPOCHS > 1 {
            return 0;
        }
        let unused = u64::BITS - USE_BITS;
        (self.0 << unused).cast_signed() >> unused
    }
}

/// The permits of the tenants that are hungry: those that were refused last in this epoch or in the
/// one before. A later epoch takes over the word of the one before the last, so the permits of a
/// tenant leave with its hunger, also while it holds them.
///
/// Each change of the word of a slot is followed by the additions of what it changed, to the epoch
/// of that word, if its tenant is hungry. Relaxed: they order nothing. A decision uses the sum that
/// it finds.
#[derive(Debug)]
pub(super) struct HungryUse([AtomicU64; 2]);

impl HungryUse {
    pub(super) fn new() -> Self {
        Self([EpochUse::of(0, 0).0; 2].map(AtomicU64::new))
    }

    /// Returns the permits of the hungry tenants in an epoch.
    pub(super) fn in_use(&self, epoch: u64) -> u64 {
        let of = |word: &AtomicU64| EpochUse(word.load(Ordering::Relaxed)).of_hungry(epoch);
        let [even, odd] = &self.0;
        (of(even) + of(odd)).max(0).cast_unsigned()
    }

    /// Begins an epoch. So no word is half of all epochs behind.
    pub(super) fn begin(&self, epoch: u64) {
        self.add(epoch, 0);
    }

    /// Counts a change of the word of a slot. `now` returns the present epoch. It is called after
    /// the change.
    ///
    /// The permits of a tenant that is not hungry any more are not counted. To
    /// [`EpochUse::plus`], an epoch more than half of all epochs ago would look like a later one.
    #[inline]
    pub(super) fn count(&self, from: Word, to: Word, now: impl FnOnce() -> u64) {
        if !from.is_flagged() && !to.is_flagged() {
            return;
        }
        let now = now();
        let of = |word: Word| if word.is_hungry(now) { word.in_use() } else { 0 };
        if from.epoch() == to.epoch() {
            return self.add_some(to.epoch(), of(to).wrapping_sub(of(from)));
        }
        self.add_some(from.epoch(), of(from).wrapping_neg());
        self.add_some(to.epoch(), of(to));
    }

    fn add_some(&self, epoch: u64, more: u64) {
        if more != 0 {
            self.add(epoch, more);
        }
    }

    fn add(&self, epoch: u64, more: u64) {
        let word = &self.0[usize::from(epoch % 2 == 1)];
        let plus = |word| EpochUse(word).plus(epoch, more).map(|it| it.0);
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, plus);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Epochs wrap around, and permits are given back to the epoch from which they were counted.
    #[test]
    fn permits_leave_with_their_epoch() {
        for first in [0, 7, EPOCHS - 3, EPOCHS - 2, EPOCHS - 1] {
            let epoch = |after: u64| (first + after) % EPOCHS;
            let hungry = HungryUse::new();
            (0..=first).for_each(|it| hungry.begin(it));
            let held = |after, permits| Word::default().hungry_in(epoch(after)).plus(permits);
            let count = |after, from, to| hungry.count(from, to, || epoch(after));
            count(0, Word::default(), held(0, 5));
            assert_eq!(hungry.in_use(epoch(0)), 5);
            hungry.begin(epoch(1));
            count(1, Word::default(), held(1, 3));
            assert_eq!(hungry.in_use(epoch(1)), 8);
            count(1, held(0, 5), held(1, 5));
            count(1, held(1, 5), held(1, 4));
            assert_eq!(hungry.in_use(epoch(1)), 7);
            count(1, Word::default(), held(0, 2));
            hungry.begin(epoch(2));
            assert_eq!(hungry.in_use(epoch(2)), 7, "without the two of the first epoch");
            hungry.begin(epoch(3));
            assert_eq!(hungry.in_use(epoch(3)), 0);
            count(3, held(1, 4), held(1, 0));
            count(3, held(0, 2), Word::default());
            assert_eq!(hungry.in_use(epoch(3)), 0, "theirs are not counted any more");
        }
    }

    /// A call lasts for any number of epochs. Its end changes nothing of the present ones.
    #[test]
    fn permit_is_given_back_after_any_number_of_epochs() {
        for epochs in [2, EPOCHS / 2 - 1, EPOCHS / 2, EPOCHS / 2 + 1, EPOCHS - 1] {
            let (hungry, held) = (HungryUse::new(), |it| Word::default().hungry_in(it).plus(1));
            hungry.count(Word::default(), held(1), || 1);
            (2..=epochs + 1).for_each(|it| hungry.begin(it % EPOCHS));
            let (before, now) = (epochs % EPOCHS, (epochs + 1) % EPOCHS);
            for it in [before, now] {
                hungry.count(Word::default(), held(it), || now);
            }
            hungry.count(held(1), Word::default().hungry_in(1), || now);
            assert_eq!(hungry.in_use(now), 2, "after {epochs} epochs");
            for it in [before, now] {
                hungry.count(Word::default(), held(it), || now);
            }
            assert_eq!(hungry.in_use(now), 4, "after {epochs} epochs");
        }
    }

    /// A permit is given back before what its tenant holds is counted.
    #[test]
    fn permits_below_zero_are_none() {
        let (hungry, held) = (HungryUse::new(), Word::default().hungry_in(1).plus(2));
        hungry.count(held, Word::default(), || 1);
        assert_eq!(hungry.in_use(1), 0);
        hungry.count(Word::default(), held.plus(1), || 1);
        assert_eq!(hungry.in_use(1), 1);
    }
}
