//! Giving permits back.

use super::PermitWindow;
use crate::sync::Ordering;
use crate::time::Timestamp;

impl PermitWindow {
    /// Gives back `permits` permits that were taken at `now`, if they were taken in the newest
    /// bucket and that is open. Returns whether they were given back. Permits of a closed bucket
    /// leave the window with it.
    ///
    /// A request takes its permits in the bucket of its time, or in a newer one. So if the bucket
    /// of its time is the newest one, that is the bucket.
    pub(in crate::flow) fn give_back(&self, now: Timestamp, permits: u64) -> bool {
        if permits == 0 {
            return true;
        }
        let number = self.config.bucket_number(now);
        // As in `roll_to`: the permits of a bucket that was too far ahead were taken in an earlier
        // one, although the bucket may be the newest by now.
        if !self.horizon.decided_at(self.config.start_of(number).as_nanos()) {
            return false;
        }
        let mut word = self.load();
        loop {
            let newest = self.layout.read(word);
            if newest.striped && newest.number == number {
                // The permits may have been taken from any stripe, or before the epoch.
                word = self.end_epoch(word, |direct| direct);
                continue;
            }
            // No more than the permits of the bucket itself: notes of earlier buckets are final.
            if newest.number != number || !newest.is_direct() || permits > self.permits_in(&newest)
            {
                return false;
            }
            // Relaxed: as in `take`, this continues the release sequence of the thread that opened
            // the bucket. A thread that closes the bucket does so by a compare-exchange against the
            // whole word, so the permits are given back before that, or not at all.
            match self.newest.compare_exchange_weak(
                word,
                word - permits,
                Ordering::Relaxed,
                Ordering::Acquire,
            ) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
    }
}
