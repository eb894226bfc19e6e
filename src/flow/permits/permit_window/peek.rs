//! Asking for a decision without taking permits.

use super::{PackedBucket, PermitWindow};
use crate::flow::contract::{Decision, Refusal};
use crate::node::Reason;
use crate::time::{Clock, Timestamp};

impl PermitWindow {
    /// Returns the decision on a request for `permits` permits of at most `limit`. Takes none,
    /// closes no bucket, and does not advance the horizon. The decision is of one moment.
    pub(in crate::flow) fn peek(
        &self,
        now: Timestamp,
        permits: u64,
        limit: u64,
        clock: &impl Clock,
    ) -> Decision {
        if permits == 0 {
            return Decision::Admitted(());
        }
        if permits > limit {
            return Decision::Refused(Refusal::never());
        }
        let number = self.config.bucket_number(now);
        if let Some(decision) = self.peek_direct(number, permits, limit) {
            return decision;
        }
        let decide = |newest: &PackedBucket| {
            let last = if newest.number < number || newest.flag {
                // The bucket that `roll_to` would open.
                let number = self.within_horizon(number, clock);
                number.max(newest.number + u64::from(newest.flag))
            } else {
                newest.number
            };
            let taken = self.buckets_of(last, newest).map(|(_, permits)| permits).sum::<u64>();
            match taken.saturating_add(permits).saturating_sub(limit) {
                0 => Decision::Admitted(()),
                excess => Decision::Refused(self.refuse_until_left(last, newest, excess)),
            }
        };
        loop {
            let (decision, striped) = self.view(|newest| (decide(newest), newest.striped));
            if decision.is_admitted() || !striped {
                return decision;
            }
            // Permits that were taken during the view may have to leave as well.
            self.end_epoch_now();
        }
    }

    /// Returns the decision by the word alone, if that is the direct word of the bucket; `None` if
    /// it is not, or has changed.
    fn peek_direct(&self, number: u64, permits: u64, limit: u64) -> Option<Decision> {
        let word = self.load();
        if !self.layout.is_same_bucket(word, self.layout.word(number, 0)) {
            return None;
        }
        let taken = self.layout.read(word).count;
        let excess = taken.saturating_add(permits).saturating_sub(limit);
        if excess == 0 {
            return Some(Decision::Admitted(()));
        }
        let refusal = self.refuse_until(number, excess);
        // As in `take`: a reading of notes of a later bucket finds the word changed.
        let is_unchanged = self.load() == word;
        is_unchanged.then_some(Decision::Refused(refusal))
    }

    /// Returns the bucket, or the bucket of the horizon if it is earlier. Does not advance the
    /// horizon.
    pub(in crate::flow) fn within_horizon(&self, number: u64, clock: &impl Clock) -> u64 {
        self.config.bucket_number(self.bounded(self.config.start_of(number), clock))
    }

    /// Returns the time, or the horizon if it is earlier. Does not advance the horizon.
    pub(in crate::flow) fn bounded(&self, now: Timestamp, clock: &impl Clock) -> Timestamp {
        Timestamp::from_nanos(self.horizon.bounded(now.as_nanos(), clock))
    }

    /// Returns the refusal until `excess` permits of the window that ends with bucket `last` have
    /// left it, the oldest first.
    fn refuse_until_left(&self, last: u64, newest: &PackedBucket, excess: u64) -> Refusal {
        let mut left = 0;
        let leaves = self.buckets_of(last, newest).find(|(_, permits)| {
            left += permits;
            left >= excess
        });
        let number = leaves.map_or(last, |(number, _)| number);
        Refusal::until(Reason::LimitReached, self.leaves_at(number))
    }
}
