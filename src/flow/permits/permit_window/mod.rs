//! The permits of a sliding window, decided by one word, or by stripes while threads compete for
//! it.

mod epoch;
mod peek;
mod ration;
mod read;
mod refund;
mod retry;
#[cfg(all(test, not(loom)))]
mod tests;

pub(in crate::flow) use ration::{FullWindow, Ration, Usage};

use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::flow::contract::{Decision, LimitError, Refusal};
use crate::flow::permits::Horizon;
use crate::flow::permits::{Layout, PackedBucket};
use crate::flow::permits::{Shares, Stripes};
use crate::sync::{AtomicU64, Ordering, RacyOnce, zeros};
use crate::time::{Clock, Timestamp, WindowConfig, run};

/// The number of permits that were taken in each of the last buckets.
///
/// # Taking permits
///
/// The word `newest` is `{ bucket, closed: 1, striped: 1, permits of the window that ends with it
/// }`. One compare-exchange on it checks and takes permits, so threads that race never take more
/// permits than are left.
///
/// While threads compete for the word, it is *striped*: permits are taken from words on several
/// cache lines, and the count of `newest` is the number of an epoch. [`epoch`] has that protocol. A
/// closed word is never striped. The word is *direct* if it is neither striped nor closed.
///
/// # Moving to a later bucket
///
/// 1. *Close* the newest bucket, by setting the flag, and end its epoch, if it has one. From then
///    on, no permit is taken of it.
/// 2. *Note* the permits of the closed bucket in its slot.
/// 3. *Open* the later bucket, with the sum of the notes of its window.
///
/// Each step is a compare-exchange that any thread can make (helping), so no thread waits for a
/// stalled one. A second attempt at a step fails: each slot only grows, and so does the word from
/// one step to the next.
///
/// # Giving permits back
///
/// While the newest bucket is open, permits that were taken in it can be given back. This lowers
/// the count, and so does the end of an epoch, in which a count takes the place of the number of
/// the epoch. No other change lowers the word. So a direct word may return (ABA), but only while
/// its bucket is open, and then it has the same meaning:
///
/// - Taking, closing and giving back need only the bucket, the flag and the count, which are all in
///   the word.
/// - The notes of the earlier buckets do not change while a bucket is the newest, so a reading that
///   finds the word it began with has read the notes of that word.
/// - A closed word does not change before the next bucket is opened, and never returns. So a sum of
///   notes that is swapped in against it is current.
///
/// The bucket of the horizon is the last one that is opened, so a time that is too far ahead does
/// not use up the permits until then.
///
/// # Orderings
///
/// - `newest`: opening releases, and each load acquires. A thread that finds a bucket open finds
///   the notes of all earlier ones. Taking and closing are relaxed read-modify-writes, which
///   continue that release sequence.
/// - `closed`: a note releases, and reading it acquires. A thread that finds a note of a later
///   bucket finds `newest` changed.
/// - `leaves` and `before`: relaxed. Each word is complete in itself: it follows from its bucket
///   and from the notes of the buckets before, which do not change while that bucket is the newest.
#[derive(Debug)]
pub(in crate::flow) struct PermitWindow {
    config: WindowConfig,
    /// The layout of `newest` and of the notes. The flag says that the bucket is closed.
    layout: Layout,
    /// The newest bucket, and the permits of the window that ends with it.
    newest: AtomicU64,
    /// For each slot, a closed bucket and the permits that were taken in it.
    closed: Box<[AtomicU64]>,
    /// With the flag: a bucket that was the newest, and the number of buckets after which the first
    /// permit of its window leaves.
    leaves: AtomicU64,
    /// With the flag: a bucket that was the newest, and the permits of its window that were taken
    /// in the buckets before it. Written by readings.
    before: AtomicU64,
    horizon: Horizon,
    /// Made when an epoch first begins.
    stripes: RacyOnce<CachePadded<Stripes>>,
}

impl PermitWindow {
    pub(in crate::flow) fn new(config: WindowConfig) -> Self {
        let layout = Layout::of(&config);
        let closed = (0..config.sample_count()).map(|_| AtomicU64::new(0)).collect();
        let [newest, leaves, before] = zeros();
        let (horizon, stripes) = (Horizon::new(), RacyOnce::new());
        Self { config, layout, newest, closed, leaves, before, horizon, stripes }
    }

    /// Sets the horizon, before the first request.
    pub(in crate::flow) fn with_max_lead(self, lead: Duration) -> Self {
        Self { horizon: Horizon::with_lead(lead), ..self }
    }

    pub(in crate::flow) const fn max_lead(&self) -> Duration {
        self.horizon.lead()
    }

    pub(in crate::flow) const fn config(&self) -> &WindowConfig {
        &self.config
    }

    /// Returns the layout of words of a bucket and its permits.
    #[inline]
    pub(in crate::flow) const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the maximum number of permits in a window of that geometry.
    pub(in crate::flow) const fn max_permits(config: &WindowConfig) -> u64 {
        Layout::of(config).max_count()
    }

    /// Returns an error if a window of that geometry cannot have that many permits.
    pub(in crate::flow) const fn check(
        config: &WindowConfig,
        limit: u64,
    ) -> Result<(), LimitError> {
        let max = Self::max_permits(config);
        if limit > max {
            let bucket_len = config.bucket_len();
            return Err(LimitError::TooHigh { limit, max, bucket_len });
        }
        Ok(())
    }

    /// Takes `permits` permits, if `ration` has as many left. `clock` bounds `now`; it is not read
    /// for a request in the newest bucket.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    pub(in crate::flow) fn take(
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
        let own = self.layout.word(number, 0);
        let mut word = self.load();
        loop {
            // One comparison for the usual case, a direct word of the request's own bucket.
            if !self.layout.is_same_bucket(word, own) {
                let newest = self.layout.read(word);
                if newest.striped && newest.number >= number {
                    match self.take_striped(word, permits, ration) {
                        Ok(()) => return Decision::Admitted(()),
                        Err(found) => word = found,
                    }
                    continue;
                }
                if newest.number < number || newest.flag {
                    word = self.roll_to(word, number, ration, clock);
                    // From now on, the newest bucket is late enough.
                    number = 0;
                    continue;
                }
            }
            let Some(usage) = ration.usage(self, word, permits) else {
                word = self.load();
                continue;
            };
            if !usage.admits(permits) {
                let refusal = self.refusal(word, permits, ration);
                // The ration may have read notes of a later bucket. In that case it has acquired
                // them, and this load finds the word changed.
                let found = self.load();
                if self.layout.is_same_bucket(word, found) {
                    return Decision::Refused(refusal);
                }
                word = found;
                continue;
            }
            // Relaxed: this continues the release sequence of the thread that opened the bucket,
            // and the modification order of the word decides which thread takes permits.
            match self.newest.compare_exchange_weak(
                word,
                word + permits,
                Ordering::Relaxed,
                // Acquire: as in `load`, which would take more instructions here.
                Ordering::Acquire,
            ) {
                Ok(_) => return Decision::Admitted(()),
                // Retried at once if few permits are left: this thread has the cache line now.
                Err(found) if !Shares::is_worth(usage.remaining(), permits) => word = found,
                Err(found) => word = self.contend(word, found, permits, ration),
            }
        }
    }

    /// Opens the bucket of a time, or the bucket of the horizon if the time is older, unless a
    /// later bucket is open. The ration then closes the buckets before. Returns the number of the
    /// open bucket.
    pub(in crate::flow) fn open_bucket_of(
        &self,
        now: Timestamp,
        ration: &impl Ration,
        clock: &impl Clock,
    ) -> u64 {
        let number = self.config.bucket_number(now);
        let mut word = self.load();
        let newest = self.layout.read(word);
        if newest.number < number || newest.flag {
            word = self.roll_to(word, number, ration, clock);
        }
        self.layout.read(word).number
    }

    /// Returns the word of the newest bucket. After a failed compare-exchange, this returns the
    /// word that it found, or a later word.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of `take`")]
    fn load(&self) -> u64 {
        // Acquire: pairs with the Release in `open`.
        self.newest.load(Ordering::Acquire)
    }

    /// Returns the refusal of a request for `permits` permits of a full window. It is valid if the
    /// bucket is still the newest.
    #[inline]
    fn refusal(&self, word: u64, permits: u64, ration: &impl Ration) -> Refusal {
        let newest = self.layout.read(word);
        let full = FullWindow { word, number: newest.number, taken: newest.count, permits };
        ration.refuse(self, &full)
    }

    /// Opens a bucket that is not older than `number`, or than the bucket of the horizon if that is
    /// older. Returns the word of the open bucket.
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

    /// Makes one step towards a bucket that is not older than `number`, and returns the word after
    /// that step.
    fn roll(&self, word: u64, newest: &PackedBucket, number: u64, ration: &impl Ration) -> u64 {
        if newest.striped {
            return self.end_epoch(word, |direct| self.layout.flagged(direct));
        }
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
    /// If other threads have already opened a later bucket, `permits` may be wrong. In that case
    /// they have noted the bucket before, and this does nothing.
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
        // Release: pairs with the Acquire in `load`. A thread that finds the bucket open finds the
        // notes of the buckets before it, made by this thread or by a thread whose notes this
        // thread has acquired. The compare-exchange is against the word that was found closed:
        // while that word is unchanged, the notes that were added up are current.
        match self.newest.compare_exchange(word, opened, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => opened,
            Err(_) => self.load(),
        }
    }

    /// Returns the noted permits of the window that ends with a bucket. While that bucket is the
    /// newest, these are the permits of the buckets before it.
    pub(in crate::flow) fn noted(&self, number: u64) -> u64 {
        self.notes(number).map(|(_, permits)| permits).sum()
    }

    /// Returns the noted buckets of the window that ends with `number`, and their permits, from the
    /// oldest to the newest.
    fn notes(&self, number: u64) -> impl Iterator<Item = (u64, u64)> {
        let numbers = run(number, self.closed.len() as u64);
        let (newer, older) = self.closed.split_at(self.config.slot_of(*numbers.start()));
        numbers
            .zip(older.iter().chain(newer))
            .filter_map(|(number, slot)| Some((number, self.note_in(slot, number)?)))
    }

    /// Returns the noted permits of a bucket; `None` if its slot has another bucket.
    fn note_in(&self, slot: &AtomicU64, number: u64) -> Option<u64> {
        // Acquire: pairs with the Release in `note`. A thread that finds a later bucket in the slot
        // also finds the word changed.
        let note = self.layout.read(slot.load(Ordering::Acquire));
        (note.number == number && note.flag).then_some(note.count)
    }

    /// Returns the permits that were taken in the newest bucket itself.
    fn permits_in(&self, newest: &PackedBucket) -> u64 {
        let before = self.notes(newest.number).filter(|&(number, _)| number < newest.number);
        newest.count.saturating_sub(before.map(|(_, permits)| permits).sum())
    }
}
