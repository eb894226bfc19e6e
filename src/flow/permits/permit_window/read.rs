//! Readings of a window. They close no bucket.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::time::Duration;

use super::{PackedBucket, PermitWindow};
use crate::flow::permits::{BucketPermits, Stripes};
use crate::sync::Ordering;
use crate::time::{Timestamp, run};

impl PermitWindow {
    /// Returns what `read` returns for the newest bucket, all of one moment. If other threads take
    /// permits from stripes during the call, the permits of the newest bucket lie between those
    /// before and after it.
    pub(in crate::flow) fn view<T>(&self, read: impl Fn(&PackedBucket) -> T) -> T {
        self.view_of(Stripes::taken, read)
    }

    /// As [`view`](Self::view), with the permits that `taken` returns while they are taken from
    /// stripes.
    fn view_of<T>(&self, taken: impl Fn(&Stripes) -> u64, read: impl Fn(&PackedBucket) -> T) -> T {
        let mut word = self.load();
        loop {
            let view = self.newest_in(word, &taken).map(|newest| read(&newest));
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
        self.permits_and_end_of(Stripes::taken, now)
    }

    /// As [`permits_and_end`](Self::permits_and_end). While permits are taken from stripes, those
    /// of other threads are of a moment shortly before.
    pub(in crate::flow) fn recent_permits_and_end(
        &self,
        now: Timestamp,
    ) -> (u64, Option<Timestamp>) {
        self.permits_and_end_of(Stripes::taken_recently, now)
    }

    fn permits_and_end_of(
        &self,
        taken: impl Fn(&Stripes) -> u64,
        now: Timestamp,
    ) -> (u64, Option<Timestamp>) {
        let number = self.config.bucket_number(now);
        self.view_of(taken, |newest| {
            // The window ends with the bucket of `now`, or with the newest bucket if that is later.
            if newest.number >= number {
                return self.newest_and_end(now, newest);
            }
            let (mut sum, mut last) = (0, None);
            for (number, permits) in self.notes(number) {
                if permits > 0 && number < newest.number {
                    sum += permits;
                    last = Some(number);
                }
            }
            if let own @ 1.. = self.newest_permits_in(number, newest) {
                sum += own;
                last = Some(newest.number);
            }
            (sum, last.map_or(Some(now), |last| self.leaves_at(last)))
        })
    }

    /// As [`permits_and_end`](Self::permits_and_end), for the window that ends with the newest
    /// bucket. The word has the permits of that window.
    fn newest_and_end(&self, now: Timestamp, newest: &PackedBucket) -> (u64, Option<Timestamp>) {
        if newest.count == 0 {
            return (0, Some(now));
        }
        if newest.count > self.before(newest.number) {
            return (newest.count, self.leaves_at(newest.number));
        }
        let notes = self.notes(newest.number);
        let taken = notes.filter(|&(number, permits)| permits > 0 && number < newest.number);
        let last = taken.last().map_or(newest.number, |(number, _)| number);
        (newest.count, self.leaves_at(last))
    }

    /// Returns the permits that were taken in the newest bucket itself, if the window that ends
    /// with a later bucket has it; 0 otherwise.
    fn newest_permits_in(&self, number: u64, newest: &PackedBucket) -> u64 {
        if run(number, self.closed.len() as u64).contains(&newest.number) {
            newest.count.saturating_sub(self.before(newest.number))
        } else {
            0
        }
    }

    /// Returns the permits of the buckets before the newest one, `number`, in the window that ends
    /// with it. They are added up once in a bucket.
    fn before(&self, number: u64) -> u64 {
        // Relaxed: the word is complete in itself. It follows from its bucket and from the notes of
        // the buckets before, which do not change while that bucket is the newest. A sum that was
        // made while a later bucket was opened may be wrong. Its bucket is never the newest again,
        // so it is used only by a view that finds the word of the window changed.
        let known = self.layout.read(self.before.load(Ordering::Relaxed));
        if known.flag && known.number == number {
            return known.count;
        }
        let notes = self.notes(number).filter(|&(noted, _)| noted < number);
        let permits = notes.map(|(_, permits)| permits).sum();
        let word = self.layout.flagged(self.layout.word(number, permits));
        self.before.store(word, Ordering::Relaxed);
        permits
    }

    /// Returns whether the window at `now` has no permits and ends with the newest bucket, or after
    /// it. A request at an earlier time counts in the newest bucket, and in a new window it would
    /// count in its own.
    pub(in crate::flow) fn is_as_new(&self, now: Timestamp) -> bool {
        let number = self.config.bucket_number(now);
        self.view(|newest| match newest.number.cmp(&number) {
            Less => {
                self.newest_permits_in(number, newest) == 0
                    && self.notes(number).all(|(_, permits)| permits == 0)
            }
            Equal => newest.count == 0,
            Greater => false,
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

    /// As [`permits_of`](Self::permits_of), of a moment at which that bucket is the newest, or has
    /// been.
    pub(in crate::flow) fn permits_taken_in(&self, number: u64) -> u64 {
        self.permits_of(number, &self.layout.read(self.load()))
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
