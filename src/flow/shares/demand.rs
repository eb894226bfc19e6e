//! The weights of the hungry tenants, by epoch.

use super::table::EPOCHS;
use crate::sync::{AtomicU64, Ordering};

/// `{ epoch: 15, weights of the epoch before: 24, of this one: 24 }`.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemandWord(u64);

const WEIGHT_BITS: u32 = 24;
const MOST: u64 = (1 << WEIGHT_BITS) - 1;

impl DemandWord {
    /// Weights saturate: the shares are then a little too large.
    const fn of(epoch: u64, before: u64, now: u64) -> Self {
        let before = if before < MOST { before } else { MOST };
        let now = if now < MOST { now } else { MOST };
        Self(((epoch % EPOCHS) << (2 * WEIGHT_BITS)) | (before << WEIGHT_BITS) | now)
    }

    pub(super) const fn epoch(self) -> u64 {
        self.0 >> (2 * WEIGHT_BITS)
    }

    const fn before(self) -> u64 {
        self.0 >> WEIGHT_BITS & MOST
    }

    const fn now(self) -> u64 {
        self.0 & MOST
    }

    /// Returns the weights of the tenants that are hungry.
    pub(super) const fn weights(self) -> u64 {
        self.before() + self.now()
    }

    /// Returns the word after a tenant of that weight was refused in `epoch`. If it was hungry, its
    /// weight counts in the epoch before.
    const fn with(self, epoch: u64, weight: u64, was_hungry: bool) -> Self {
        let (before, now) = (self.before(), self.now());
        if self.epoch() == epoch {
            let before = if was_hungry { before.saturating_sub(weight) } else { before };
            return Self::of(epoch, before, now + weight);
        }
        // The epoch has ended since. If it is the one before, the weight was lost with the one
        // before that, and counts now.
        let is_before = self.epoch().wrapping_sub(epoch) % EPOCHS == 1;
        Self::of(self.epoch(), before + if is_before { weight } else { 0 }, now)
    }
}

/// The weights of the hungry tenants, and the permits that have come back, by which epochs end.
///
/// Relaxed: the weights order nothing. A decision uses the word that it finds.
#[derive(Debug)]
pub(super) struct Demand {
    word: AtomicU64,
    returned: AtomicU64,
    /// The number of returned permits at which the epoch has begun.
    began: AtomicU64,
}

impl Demand {
    pub(super) fn new() -> Self {
        // An empty slot has epoch 0, and no flag.
        let [word, returned, began] = [DemandWord::of(0, 0, 0).0, 0, 0].map(AtomicU64::new);
        Self { word, returned, began }
    }

    pub(super) fn load(&self) -> DemandWord {
        DemandWord(self.word.load(Ordering::Relaxed))
    }

    /// Counts a tenant that was refused in an epoch.
    pub(super) fn add(&self, epoch: u64, weight: u64, was_hungry: bool) {
        self.update(|word| word.with(epoch, weight, was_hungry));
    }

    /// Counts permits that have come back. Ends the epoch after as many as the limit in force, and
    /// then returns the next epoch.
    pub(super) fn give_back(&self, permits: u64, limit: u64) -> Option<u64> {
        let returned = self.returned.fetch_add(permits, Ordering::Relaxed).wrapping_add(permits);
        let began = self.began.load(Ordering::Relaxed);
        let of_epoch = returned.wrapping_sub(began);
        // The number is below 0 if a later permit has ended the epoch, or while permits are
        // withdrawn.
        if of_epoch < limit.max(1) || of_epoch > u64::MAX / 2 {
            return None;
        }
        // One thread ends the epoch.
        let order = Ordering::Relaxed;
        self.began.compare_exchange(began, returned, order, order).ok()?;
        Some(self.update(|word| DemandWord::of(word.epoch() + 1, word.now(), 0)).epoch())
    }

    /// Subtracts permits that no request has used, before [`give_back`](Self::give_back) adds them:
    /// an epoch is as long as requests take. If the epoch ends in between, they count in the next
    /// one.
    pub(super) fn note_withdrawn(&self, permits: u64) {
        self.returned.fetch_sub(permits, Ordering::Relaxed);
    }

    /// Updates the word, and returns the new one.
    fn update(&self, then: impl Fn(DemandWord) -> DemandWord) -> DemandWord {
        let (next, order) = (|word| Some(then(DemandWord(word)).0), Ordering::Relaxed);
        let (Ok(word) | Err(word)) = self.word.fetch_update(order, order, next);
        then(DemandWord(word))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// In between, fewer permits have come back than when the epoch began.
    #[test]
    fn permit_that_comes_back_beside_a_withdrawal_ends_no_epoch() {
        let demand = Demand::new();
        demand.note_withdrawn(3);
        assert_eq!(demand.give_back(1, 4), None);
        assert_eq!(demand.give_back(3, 4), None);
        assert_eq!(demand.give_back(2, 4), None);
        assert_eq!(demand.give_back(1, 4), Some(1));
    }
}
