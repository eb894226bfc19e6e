//! Asking for a decision without taking permits.

use std::cmp::Ordering::{Equal, Greater, Less};

use super::{FullWindow, PackedBucket, PermitWindow};
use crate::flow::{Decision, Reason, Refusal};
use crate::time::{Clock, Timestamp, run};

impl PermitWindow {
    /// Returns the decision on a request for `permits` permits of at most `limit`. Takes none, closes no bucket, and does
    /// not advance the horizon. The decision is of one moment.
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
        let mut word = self.load();
        loop {
            let newest = self.layout.read(word);
            let last = if newest.number < number || newest.flag {
                // The bucket that `roll_to` would open.
                let start = self.config.start_of(number).as_nanos();
                let bounded = Timestamp::from_nanos(self.horizon.bounded(start, clock));
                self.config.bucket_number(bounded).max(newest.number + u64::from(newest.flag))
            } else {
                newest.number
            };
            let taken = self.buckets(last, &newest).map(|(_, permits)| permits).sum();
            let excess = FullWindow { number: last, taken, permits }.excess(limit);
            let decision = if excess == 0 {
                Decision::Admitted(())
            } else {
                Decision::Refused(self.refuse_until_left(last, &newest, excess))
            };
            // A thread that has read a note of a later bucket finds the word changed, as in `permits_by_bucket`.
            let again = self.load();
            if again == word {
                return decision;
            }
            word = again;
        }
    }

    /// Returns the refusal until `excess` permits of the window that ends with bucket `last` have left it, the oldest
    /// first.
    fn refuse_until_left(&self, last: u64, newest: &PackedBucket, excess: u64) -> Refusal {
        let mut left = 0;
        let leaves = self.buckets(last, newest).find(|(_, permits)| {
            left += permits;
            left >= excess
        });
        let number = leaves.map_or(last, |(number, _)| number);
        Refusal::until(Reason::LimitReached, self.leaves_at(number))
    }

    /// Returns the buckets of the window that ends with bucket `last`, and their permits, from the oldest to the newest.
    fn buckets(&self, last: u64, newest: &PackedBucket) -> impl Iterator<Item = (u64, u64)> {
        let numbers = run(last, self.closed.len() as u64);
        numbers.map(|number| (number, self.permits_of(number, newest)))
    }

    /// Returns the permits that were taken in a bucket; 0 for a bucket after the newest one.
    pub(super) fn permits_of(&self, number: u64, newest: &PackedBucket) -> u64 {
        match number.cmp(&newest.number) {
            Less => self.note_in(&self.closed[self.config.slot_of(number)], number).unwrap_or(0),
            Equal => self.permits_in(newest),
            Greater => 0,
        }
    }
}
