//! The response times of the last calls.

use super::word::Place;
use crate::sync::{AtomicU64, Ordering};

/// The response time of each slot, with the lowest bits of its lap.
#[derive(Debug)]
pub(super) struct Times(Box<[AtomicU64]>);

/// The bits of the lap, above the nanoseconds.
const LAP_BITS: u32 = 16;
const NANOS_BITS: u32 = u64::BITS - LAP_BITS;

/// The longest response time that is kept, in nanoseconds: 78 hours.
pub(super) const MAX_NANOS: u64 = (1 << NANOS_BITS) - 1;

impl Times {
    pub(super) fn new(len: u32) -> Self {
        Self((0..len).map(|_| AtomicU64::new(0)).collect())
    }

    /// Records the response time of the call at a place, unless the slot has a later one, or the
    /// call has left the window.
    ///
    /// `has_left` is asked after the slot was read. If the thread stalls after the answer, and
    /// another call is recorded in the slot in between, the exchange fails.
    pub(super) fn record(&self, place: Place, nanos: u64, has_left: impl Fn() -> bool) {
        let Some(slot) = self.slot(place.position) else { return };
        let new = place.lap << NANOS_BITS | nanos.min(MAX_NANOS);
        // Relaxed, as all accesses: a slot is complete in itself. `has_left` decides only after a
        // stall of 32,768 laps.
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |found| {
            let is_later = (1..=u16::MAX / 2).contains(&laps_ahead(found, place.lap));
            (!is_later && !has_left()).then_some(new)
        });
    }

    /// Returns the response time at a place in nanoseconds, or in the same slot one lap later;
    /// `None` if neither was recorded.
    pub(super) fn get(&self, place: Place) -> Option<u64> {
        let found = self.slot(place.position)?.load(Ordering::Relaxed);
        (laps_ahead(found, place.lap) <= 1).then_some(found & MAX_NANOS)
    }

    fn slot(&self, position: u64) -> Option<&AtomicU64> {
        self.0.get(usize::try_from(position).ok()?)
    }
}

/// Returns the number of laps from `lap` to the lap of a slot, cut to the bits that a slot has.
#[expect(clippy::cast_possible_truncation, reason = "cut to the lowest bits")]
const fn laps_ahead(slot: u64, lap: u64) -> u16 {
    ((slot >> NANOS_BITS) as u16).wrapping_sub(lap as u16)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const fn first(lap: u64) -> Place {
        Place { lap, position: 0 }
    }

    #[test]
    fn earlier_response_time_is_not_recorded_over_a_later_one() {
        let times = Times::new(1);
        // The lap wraps around in the slot.
        for lap in [1, 2, 1_000, 0x7fff, 0xffff, 0x1_0000, 0x1_0001] {
            assert_eq!(times.get(first(lap)), None);
            times.record(first(lap), lap, || false);
            times.record(first(lap - 1), MAX_NANOS, || false);
            assert_eq!(times.get(first(lap)), Some(lap));
            assert_eq!(times.get(first(lap - 1)), Some(lap), "of the next lap");
            assert_eq!(times.get(first(lap + 1)), None);
        }
    }

    #[test]
    fn response_time_is_cut_to_its_bits() {
        let times = Times::new(1);
        times.record(first(7), u64::MAX, || false);
        assert_eq!(times.get(first(7)), Some(MAX_NANOS));
        assert_eq!(times.get(first(8)), None);
    }
}
