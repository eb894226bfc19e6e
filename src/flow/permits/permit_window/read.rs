//! Readings of a window. They close no bucket.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::time::Duration;

use super::{PackedBucket, PermitWindow};
use crate::flow::permits::BucketPermits;
use crate::time::{Timestamp, run};

impl PermitWindow {
    /// Returns what `read` returns for the newest bucket, all of one moment. If other threads take
    /// permits from stripes during the call, the permits of the newest bucket lie between those
    /// before and after it.
    pub(in crate::flow) fn view<T>(&self, read: impl Fn(&PackedBucket) -> T) -> T {
        let mut word = self.load();
        loop {
            let view = self.newest_in(word).map(|newest| read(&newest));
            // A thread that has read a note of a later bucket has acquired it, and finds the word
            // changed. If the word is unchanged, the notes are of the moment of this load.
            let again = self.load();
            match view {
                Some(view) if again == word => return view,
                _ => word = again,
            }
        }
    }

    /// Returns the permits of the window that ends with bucket `number`; `None` if that is not the
    /// newest bucket.
    pub(in crate::flow) fn taken_in(&self, number: u64) -> Option<u64> {
        self.view(|newest| (newest.number == number).then_some(newest.count))
    }

    /// Returns the permits of the window at `now`, and the start of the first window without any of
    /// them: `now` if there are none, and `None` if it is after the end of time. Both are of one
    /// moment.
    pub(in crate::flow) fn permits_and_end(&self, now: Timestamp) -> (u64, Option<Timestamp>) {
        let number = self.config.bucket_number(now);
        self.view(|newest| {
            // The window ends with the bucket of `now`, or with the newest bucket if that is later.
            let (mut sum, mut last) = (0, None);
            for (number, permits) in self.buckets_of(number.max(newest.number), newest) {
                sum += permits;
                last = if permits > 0 { Some(number) } else { last };
            }
            (sum, last.map_or(Some(now), |last| self.leaves_at(last)))
        })
    }

    /// Returns whether the window at `now` has no permits and ends with the newest bucket, or after
    /// it. A request at an earlier time counts in the newest bucket, and in a new window it would
    /// count in its own.
    pub(in crate::flow) fn is_as_new(&self, now: Timestamp) -> bool {
        let number = self.config.bucket_number(now);
        self.view(|newest| {
            newest.number <= number
                && self.buckets_of(number, newest).all(|(_, permits)| permits == 0)
        })
    }

    /// Returns the buckets of the window at `now` and their permits, from the oldest to the newest.
    pub(in crate::flow) fn permits_by_bucket(&self, now: Timestamp) -> Vec<BucketPermits> {
        let number = self.config.bucket_number(now);
        self.view(|newest| {
            let buckets = self.buckets_of(number.max(newest.number), newest);
            let start_of = |number| self.config.start_of(number);
            buckets
                .map(|(number, permits)| BucketPermits { start: start_of(number), permits })
                .collect()
        })
    }

    /// Returns the buckets of the window that ends with bucket `last`, and their permits, from the
    /// oldest to the newest.
    pub(in crate::flow) fn buckets_of(
        &self,
        last: u64,
        newest: &PackedBucket,
    ) -> impl Iterator<Item = (u64, u64)> {
        let numbers = run(last, self.closed.len() as u64);
        numbers.map(move |number| (number, self.permits_of(number, newest)))
    }

    /// Returns the permits that were taken in a bucket; 0 for a bucket after the newest one.
    pub(in crate::flow) fn permits_of(&self, number: u64, newest: &PackedBucket) -> u64 {
        match number.cmp(&newest.number) {
            Less => self.note_in(&self.closed[self.config.slot_of(number)], number).unwrap_or(0),
            Equal => self.permits_in(newest),
            Greater => 0,
        }
    }

    /// Returns the start of the window that ends with a bucket.
    pub(in crate::flow) fn oldest(&self, number: u64) -> Timestamp {
        self.config.start_of(*run(number, self.closed.len() as u64).start())
    }

    /// Returns the last nanosecond of a bucket.
    pub(in crate::flow) fn last_moment(&self, number: u64) -> Timestamp {
        let last = self.config.bucket_nanos() - 1;
        self.config.start_of(number).saturating_add(Duration::from_nanos(last))
    }
}
