//! The permits of a sliding window, decided by one word.

mod peek;
mod refund;

use std::time::Duration;

use super::horizon::Horizon;
use super::packed_bucket::{Layout, PackedBucket};
use super::{BucketPermits, Decision, LimitError, Reason, Refusal, Retry};
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, Timestamp, WindowConfig, run};

/// The number of permits that were taken in each of the last buckets.
///
/// # Taking permits
///
/// The word `newest` is `{ bucket, closed: 1, permits of the window that ends with it }`. One compare-exchange on it
/// checks and takes permits, so threads that race never take more permits than are left.
///
/// # Moving to a later bucket
///
/// 1. *Close* the newest bucket, by setting the flag. From then on, no permit is taken of it.
/// 2. *Note* the permits of the closed bucket in its slot.
/// 3. *Open* the later bucket, with the sum of the notes of its window.
///
/// Each step is a compare-exchange that any thread can make (helping), so no thread waits for a stalled one. A second
/// attempt at a step fails: each slot only grows, and so does the word from one step to the next.
///
/// # Giving permits back
///
/// While the newest bucket is open, permits that were taken in it can be given back. This is the only change that lowers the
/// word, and the count alone. So a word may return (ABA), but only while its bucket is open, and then it has the same
/// meaning:
///
/// - Taking, closing and giving back need only the bucket, the flag and the count, which are all in the word.
/// - The notes of the earlier buckets do not change while a bucket is the newest, so a reading that finds the word it began
///   with has read the notes of that word.
/// - A closed word does not change before the next bucket is opened, and never returns. So a sum of notes that is swapped in
///   against it is current.
///
/// The bucket of the horizon is the last one that is opened, so a time that is too far ahead does not use up the permits
/// until then.
///
/// # Orderings
///
/// - `newest`: opening releases, and each load acquires. A thread that finds a bucket open finds the notes of all earlier
///   ones. Taking and closing are relaxed read-modify-writes, which continue that release sequence.
/// - `closed`: a note releases, and reading it acquires. A thread that finds a note of a later bucket finds `newest`
///   changed.
/// - `leaves`: relaxed. The word is complete in itself: it follows from its bucket and from the notes of the buckets before,
///   which do not change while that bucket is the newest.
#[derive(Debug)]
pub(super) struct PermitWindow {
    config: WindowConfig,
    /// The layout of `newest` and of the notes. The flag says that the bucket is closed.
    layout: Layout,
    /// The newest bucket, and the permits of the window that ends with it.
    newest: AtomicU64,
    /// For each slot, a closed bucket and the permits that were taken in it.
    closed: Box<[AtomicU64]>,
    /// With the flag: a bucket that was the newest, and the number of buckets after which the first permit of its window
    /// leaves.
    leaves: AtomicU64,
    horizon: Horizon,
}

impl PermitWindow {
    pub(super) fn new(config: WindowConfig) -> Self {
        let layout = Layout::of(&config);
        let closed = (0..config.sample_count()).map(|_| AtomicU64::new(0)).collect();
        let [newest, leaves] = [(); 2].map(|()| AtomicU64::new(0));
        Self { config, layout, newest, closed, leaves, horizon: Horizon::new() }
    }

    /// Sets the horizon, before the first request.
    pub(super) fn with_max_lead(self, lead: Duration) -> Self {
        Self { horizon: Horizon::with_lead(lead), ..self }
    }

    pub(super) const fn max_lead(&self) -> Duration {
        self.horizon.lead()
    }

    pub(super) const fn config(&self) -> &WindowConfig {
        &self.config
    }

    /// Returns the layout of words of a bucket and its permits.
    #[inline]
    pub(super) const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the maximum number of permits in a window of that geometry.
    pub(super) const fn max_permits(config: &WindowConfig) -> u64 {
        Layout::of(config).max_count()
    }

    /// Returns an error if a window of that geometry cannot have that many permits.
    pub(super) const fn check(config: &WindowConfig, limit: u64) -> Result<(), LimitError> {
        let max = Self::max_permits(config);
        if limit > max {
            let bucket_len = config.bucket_len();
            return Err(LimitError::TooHigh { limit, max, bucket_len });
        }
        Ok(())
    }

    /// Takes `permits` permits, if `ration` has as many left. `clock` bounds `now`; it is not read for a request in the
    /// newest bucket.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    pub(super) fn take(
        &self,
        now: Timestamp,
        permits: u64,
        ration: &impl Ration,
        clock: &impl Clock,
    ) -> Decision {
        if permits == 0 {
            return Decision::Admitted(());
        }
        let mut number = self.config.bucket_number(now);
        let mut word = self.load();
        loop {
            let newest = self.layout.read(word);
            if newest.number < number || newest.flag {
                word = self.roll_to(word, number, ration, clock);
                // From now on, the newest bucket is late enough.
                number = 0;
                continue;
            }
            let Some(remaining) = ration.remaining(self, word, permits) else {
                word = self.load();
                continue;
            };
            if permits > remaining {
                match self.refuse(word, permits, ration) {
                    Ok(refusal) => return Decision::Refused(refusal),
                    Err(found) => word = found,
                }
                continue;
            }
            // Relaxed: this continues the release sequence of the thread that opened the bucket, and the modification
            // order of the word decides which thread takes permits.
            match self.newest.compare_exchange_weak(
                word,
                word + permits,
                Ordering::Relaxed,
                // Acquire: as in `load`, which would take more instructions here.
                Ordering::Acquire,
            ) {
                Ok(_) => return Decision::Admitted(()),
                Err(found) => word = found,
            }
        }
    }

    /// Returns the word of the newest bucket. After a failed compare-exchange, this returns the word that it found, or
    /// a later word.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of `take`")]
    fn load(&self) -> u64 {
        // Acquire: pairs with the Release in `open`.
        self.newest.load(Ordering::Acquire)
    }

    /// Returns the refusal of a request for `permits` permits of a full window, or the word, if another bucket has
    /// become the newest.
    #[inline]
    fn refuse(&self, word: u64, permits: u64, ration: &impl Ration) -> Result<Refusal, u64> {
        let newest = self.layout.read(word);
        let full = FullWindow { word, number: newest.number, taken: newest.count, permits };
        let refusal = ration.refuse(self, &full);
        // The ration may have read notes of a later bucket. In that case it has acquired them, and this load finds the
        // word changed.
        let found = self.load();
        if self.layout.is_same_bucket(word, found) { Ok(refusal) } else { Err(found) }
    }

    /// Opens a bucket that is not older than `number`, or than the bucket of the horizon if that is older. Returns the
    /// word of the open bucket.
    #[cold]
    fn roll_to(&self, mut word: u64, number: u64, ration: &impl Ration, clock: &impl Clock) -> u64 {
        let start = self.config.start_of(number).as_nanos();
        let bounded = Timestamp::from_nanos(self.horizon.bound(start, clock));
        let number = self.config.bucket_number(bounded);
        loop {
            let newest = self.layout.read(word);
            if newest.number >= number && !newest.flag {
                return word;
            }
            word = self.roll(word, &newest, number, ration);
        }
    }

    /// Makes one step towards a bucket that is not older than `number`, and returns the word after that step.
    fn roll(&self, word: u64, newest: &PackedBucket, number: u64, ration: &impl Ration) -> u64 {
        if !newest.flag {
            let closed = self.layout.flagged(word);
            // Relaxed, as in `take`.
            let (to, order) = (closed, Ordering::Relaxed);
            return match self.newest.compare_exchange(word, to, order, order) {
                Ok(_) => closed,
                Err(_) => self.load(),
            };
        }
        let permits = self.permits_in(newest);
        self.note(newest.number, permits);
        ration.close(self, newest.number, newest.count, permits);
        // The thread that closed the bucket had a `now` in a later bucket.
        self.open(word, number.max(newest.number + 1))
    }

    /// Notes the permits of a closed bucket, unless another thread has done so.
    ///
    /// If other threads have already opened a later bucket, `permits` may be wrong. In that case they have noted the
    /// bucket before, and this does nothing.
    fn note(&self, number: u64, permits: u64) {
        let slot = &self.closed[self.config.slot_of(number)];
        let closed = self.layout.flagged(self.layout.word(number, 0));
        let mut found = slot.load(Ordering::Relaxed);
        while found < closed {
            // Release: pairs with the Acquire in `note_in`.
            let note = closed | permits;
            match slot.compare_exchange(found, note, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => found = newer,
            }
        }
    }

    /// Opens a bucket, with the noted permits of its window, and returns the word after that.
    fn open(&self, word: u64, number: u64) -> u64 {
        let opened = self.layout.word(number, self.noted(number));
        // Release: pairs with the Acquire in `load`. A thread that finds the bucket open finds the notes of the buckets
        // before it, made by this thread or by a thread whose notes this thread has acquired. The compare-exchange is
        // against the word that was found closed: while that word is unchanged, the notes that were added up are
        // current.
        match self.newest.compare_exchange(word, opened, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => opened,
            Err(_) => self.load(),
        }
    }

    /// Returns the noted permits of the window that ends with a bucket. While that bucket is the newest, these are the
    /// permits of the buckets before it.
    pub(super) fn noted(&self, number: u64) -> u64 {
        self.notes(number).map(|(_, permits)| permits).sum()
    }

    /// Returns the noted buckets of the window that ends with `number`, and their permits, from the oldest to the
    /// newest.
    fn notes(&self, number: u64) -> impl Iterator<Item = (u64, u64)> {
        let numbers = run(number, self.closed.len() as u64);
        let (newer, older) = self.closed.split_at(self.config.slot_of(*numbers.start()));
        numbers
            .zip(older.iter().chain(newer))
            .filter_map(|(number, slot)| Some((number, self.note_in(slot, number)?)))
    }

    /// Returns the noted permits of a bucket; `None` if its slot has another bucket.
    fn note_in(&self, slot: &AtomicU64, number: u64) -> Option<u64> {
        // Acquire: pairs with the Release in `note`. A thread that finds a later bucket in the slot also finds the word
        // changed.
        let note = self.layout.read(slot.load(Ordering::Acquire));
        (note.number == number && note.flag).then_some(note.count)
    }

    /// Returns the permits that were taken in the newest bucket itself.
    fn permits_in(&self, newest: &PackedBucket) -> u64 {
        let before = self.notes(newest.number).filter(|&(number, _)| number < newest.number);
        newest.count.saturating_sub(before.map(|(_, permits)| permits).sum())
    }

    /// Returns the permits of the window that ends with bucket `number`; `None` if that is not the newest bucket.
    pub(super) fn taken_in(&self, number: u64) -> Option<u64> {
        let newest = self.layout.read(self.load());
        (newest.number == number).then_some(newest.count)
    }

    /// Returns the permits of the window at `now`. Closes no bucket.
    pub(super) fn permits(&self, now: Timestamp) -> u64 {
        let number = self.config.bucket_number(now);
        let mut word = self.load();
        loop {
            let newest = self.layout.read(word);
            if newest.number >= number {
                return newest.count;
            }
            let covered = run(number, self.closed.len() as u64);
            let older = self.notes(number).filter(|&(number, _)| number < newest.number);
            let older: u64 = older.map(|(_, permits)| permits).sum();
            let own = if covered.contains(&newest.number) { self.permits_in(&newest) } else { 0 };
            let again = self.load();
            if again == word {
                return older + own;
            }
            word = again;
        }
    }

    /// Returns the permits of the window at `now`, and the start of the first window without any of them: `now` if there
    /// are none, and `None` if it is after the end of time. Closes no bucket. Both are of one moment.
    pub(super) fn permits_and_end(&self, now: Timestamp) -> (u64, Option<Timestamp>) {
        let number = self.config.bucket_number(now);
        let mut word = self.load();
        loop {
            let newest = self.layout.read(word);
            // The window ends with the bucket of `now`, or with the newest bucket if that is later.
            let covered = run(number.max(newest.number), self.closed.len() as u64);
            let older = self.notes(*covered.end()).filter(|&(number, _)| number < newest.number);
            let (mut permits, mut last) = (0, None);
            for (number, noted) in older.filter(|&(_, noted)| noted > 0) {
                permits += noted;
                last = Some(number);
            }
            let own = if covered.contains(&newest.number) { self.permits_in(&newest) } else { 0 };
            if own > 0 {
                last = Some(newest.number);
            }
            let again = self.load();
            if again == word {
                return (permits + own, last.map_or(Some(now), |last| self.leaves_at(last)));
            }
            word = again;
        }
    }

    /// Returns what `read` returns for the newest bucket, all of one moment. Closes no bucket.
    pub(super) fn view<T>(&self, read: impl Fn(&PackedBucket) -> T) -> T {
        let mut word = self.load();
        loop {
            let view = read(&self.layout.read(word));
            // As in `permits_by_bucket`.
            let again = self.load();
            if again == word {
                return view;
            }
            word = again;
        }
    }

    /// Returns the buckets of the window at `now` and their permits, from the oldest to the newest. Closes no bucket.
    pub(super) fn permits_by_bucket(&self, now: Timestamp) -> Vec<BucketPermits> {
        let number = self.config.bucket_number(now);
        let mut word = self.load();
        loop {
            let newest = self.layout.read(word);
            let covered = run(number.max(newest.number), self.closed.len() as u64);
            let bucket = |number| BucketPermits {
                start: self.config.start_of(number),
                permits: self.permits_of(number, &newest),
            };
            let buckets = covered.map(bucket).collect();
            // A thread that has read a note of a later bucket has acquired it, and finds the word changed. If the word
            // is unchanged, the notes are of the moment of this load.
            let again = self.load();
            if again == word {
                return buckets;
            }
            word = again;
        }
    }

    /// Returns the refusal of a request that finds the window that ends with bucket `number` full: `excess` permits, at least
    /// one, have to leave first. The result is valid if that bucket is still the newest one afterwards.
    #[inline]
    pub(super) fn refuse_until(&self, number: u64, excess: u64) -> Refusal {
        let known = self.layout.read(self.leaves.load(Ordering::Relaxed));
        if excess == 1 && known.flag && known.number == number {
            // Not after the end of time: such a time is not stored.
            let leaves_at = self.config.start_of(number + known.count);
            return Refusal::new(Reason::LimitReached, Retry::At(leaves_at));
        }
        Refusal::until(Reason::LimitReached, self.leave_at(number, excess))
    }

    /// Returns the time at which `permits` permits of the window that ends with bucket `number` will have left it. The
    /// result is valid if that bucket is still the newest one afterwards. `None` if the time is after the end of time.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_at(&self, number: u64, permits: u64) -> Option<Timestamp> {
        let mut left = 0;
        let mut before = self.notes(number).take_while(|&(noted, _)| noted < number);
        let last = before.find(|(_, noted)| {
            left += noted;
            left >= permits
        });
        // If the buckets before the newest one have too few permits, some permits of the newest one have to leave.
        let last = last.map_or(number, |(last, _)| last);
        let leaves_at = self.leaves_at(last)?;
        let after = self.closed.len() as u64 - (number - last);
        // If the bucket is still the newest, the notes of its window were not overwritten before they were read.
        if permits == 1 && after <= self.layout.max_count() && self.taken_in(number).is_some() {
            let known = self.layout.flagged(self.layout.word(number, after));
            self.leaves.store(known, Ordering::Relaxed);
        }
        Some(leaves_at)
    }

    /// Returns the start of the newest bucket of the first window that does not have the bucket; `None` if that is after
    /// the end of time.
    fn leaves_at(&self, number: u64) -> Option<Timestamp> {
        self.begins(number.checked_add(self.closed.len() as u64)?)
    }

    /// Returns the start of the window that ends with a bucket.
    pub(super) fn oldest(&self, number: u64) -> Timestamp {
        self.config.start_of(*run(number, self.closed.len() as u64).start())
    }

    /// Returns the last nanosecond of a bucket.
    pub(super) fn last_moment(&self, number: u64) -> Timestamp {
        let last = self.config.bucket_nanos() - 1;
        self.config.start_of(number).saturating_add(Duration::from_nanos(last))
    }

    /// Returns the start of a bucket; `None` if it is after the end of time.
    pub(super) fn begins(&self, number: u64) -> Option<Timestamp> {
        number.checked_mul(self.config.bucket_nanos()).map(Timestamp::from_nanos)
    }
}

/// The limit of a window, which differs between limiters.
pub(super) trait Ration {
    /// Returns the permits that are left for a request for `permits` of them, if `word` is the word of the newest bucket.
    /// `None` makes the caller read the word again.
    fn remaining(&self, window: &PermitWindow, word: u64, permits: u64) -> Option<u64>;

    /// Returns the refusal of a request for which too few permits are left.
    fn refuse(&self, window: &PermitWindow, full: &FullWindow) -> Refusal;

    /// Called for each closed bucket before the next one is opened, with its number, the permits of the window that
    /// ends with it, and the permits of the bucket itself.
    ///
    /// It may be called more than once for a bucket. If other threads are ahead, the permits may be wrong. In that case
    /// these threads have called it for the bucket before.
    #[inline]
    fn close(&self, _window: &PermitWindow, _number: u64, _of_window: u64, _of_bucket: u64) {}
}

/// A window in which too few permits are left.
pub(super) struct FullWindow {
    /// The word of the newest bucket.
    pub(super) word: u64,
    /// The bucket with which the window ends.
    pub(super) number: u64,
    /// The permits of the window that are taken.
    pub(super) taken: u64,
    /// The permits that the request asked for.
    pub(super) permits: u64,
}

impl FullWindow {
    /// Returns the number of permits that have to leave before a window of `limit` permits has as many left as the
    /// request asked for.
    pub(super) const fn excess(&self, limit: u64) -> u64 {
        self.taken.saturating_add(self.permits).saturating_sub(limit)
    }
}
