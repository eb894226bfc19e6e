//! When a request that is refused can succeed.

use super::PermitWindow;
use crate::flow::contract::{Refusal, Retry};
use crate::node::Reason;
use crate::sync::Ordering;
use crate::time::Timestamp;

impl PermitWindow {
    /// Returns the refusal of a request that finds the window that ends with bucket `number` full:
    /// `excess` permits, at least one, have to leave first. The result is valid if that bucket is
    /// still the newest one afterwards.
    #[inline]
    pub(in crate::flow) fn refuse_until(&self, number: u64, excess: u64) -> Refusal {
        let known = self.layout.read(self.leaves.load(Ordering::Relaxed));
        if excess == 1 && known.flag && known.number == number {
            // Not after the end of time: such a time is not stored.
            let leaves_at = self.config.start_of(number + known.count);
            return Refusal::new(Reason::LimitReached, Retry::At(leaves_at));
        }
        Refusal::until(Reason::LimitReached, self.leave_at(number, excess))
    }

    /// Returns the time at which `permits` permits of the window that ends with bucket `number`
    /// will have left it. The result is valid if that bucket is still the newest one afterwards.
    /// `None` if the time is after the end of time.
    #[cold]
    #[inline(never)]
    pub(in crate::flow) fn leave_at(&self, number: u64, permits: u64) -> Option<Timestamp> {
        let mut left = 0;
        let mut before = self.notes(number).take_while(|&(noted, _)| noted < number);
        let last = before.find(|(_, noted)| {
            left += noted;
            left >= permits
        });
        // If the buckets before the newest one have too few permits, some permits of the newest one
        // have to leave.
        let last = last.map_or(number, |(last, _)| last);
        let leaves_at = self.leaves_at(last)?;
        let after = self.closed.len() as u64 - (number - last);
        // If the bucket is still the newest, the notes of its window were not overwritten before
        // they were read.
        if permits == 1 && after <= self.layout.max_count() && self.taken_in(number).is_some() {
            let known = self.layout.flagged(self.layout.word(number, after));
            self.leaves.store(known, Ordering::Relaxed);
        }
        Some(leaves_at)
    }

    /// Returns the start of the newest bucket of the first window that does not have the bucket;
    /// `None` if that is after the end of time.
    pub(in crate::flow) fn leaves_at(&self, number: u64) -> Option<Timestamp> {
        self.begins(number.checked_add(self.closed.len() as u64)?)
    }

    /// Returns the start of a bucket; `None` if it is after the end of time.
    pub(in crate::flow) fn begins(&self, number: u64) -> Option<Timestamp> {
        number.checked_mul(self.config.bucket_nanos()).map(Timestamp::from_nanos)
    }
}
