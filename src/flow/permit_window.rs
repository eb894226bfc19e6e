//! The permits of a sliding window, in one word that decides.

use std::time::Duration;

use super::word::{Layout, Word};
use super::{Decision, LimitError, Refusal};
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Timestamp, WindowConfig, run};

/// How many permits were taken in the last buckets: never more than were free, whoever races.
///
/// One word holds the newest bucket and the permits of the window that ends with it, so that to look and
/// to take is one compare-exchange. When time goes on, the bucket is closed first: nobody takes any more
/// of it, and what was taken in it is final. That is noted in its slot, by whoever comes first, and the
/// next bucket is opened with what the others of its window have. Each of these steps is a
/// compare-exchange that anybody can do for anybody else, so that nobody waits for one that has stalled.
///
/// The word only grows: by its bucket, then closed or not, then its permits. So does each slot's.
#[derive(Debug)]
pub(super) struct PermitWindow {
    config: WindowConfig,
    /// The flag of a word says that its bucket is closed.
    layout: Layout,
    /// The newest bucket, and the permits of the window that ends with it.
    newest: AtomicU64,
    /// By slot: a bucket that is closed, and the permits that were taken in it.
    closed: Box<[AtomicU64]>,
    /// Which is the oldest bucket with permits of the window that ends with the newest one, as was found when
    /// that was opened, or one before it.
    oldest: AtomicU64,
}

impl PermitWindow {
    pub(super) fn new(config: WindowConfig) -> Self {
        let layout = Layout::of(&config);
        let closed = (0..config.sample_count()).map(|_| AtomicU64::new(0)).collect();
        let [newest, oldest] = [(); 2].map(|()| AtomicU64::new(0));
        Self { config, layout, newest, closed, oldest }
    }

    pub(super) const fn config(&self) -> &WindowConfig {
        &self.config
    }

    /// The most permits that a window of that geometry can have.
    pub(super) const fn max_permits(config: &WindowConfig) -> u64 {
        Layout::of(config).max_count()
    }

    /// Whether a window of that geometry can have so many.
    pub(super) const fn check(config: &WindowConfig, limit: u64) -> Result<(), LimitError> {
        let max = Self::max_permits(config);
        if limit > max {
            let bucket_len = config.bucket_len();
            return Err(LimitError::TooHigh { limit, max, bucket_len });
        }
        Ok(())
    }

    /// Takes `permits` if as many are free, as `quota` has it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    pub(super) fn take(&self, now: Timestamp, permits: u64, quota: &impl Quota) -> Decision {
        if permits == 0 {
            return Decision::Admitted(());
        }
        let number = self.config.bucket_number(now);
        let mut word = self.load();
        loop {
            let newest = self.layout.read(word);
            if newest.number < number || newest.flag {
                word = self.roll(word, number, quota);
                continue;
            }
            let Some(free) = quota.free(newest.number, newest.count) else {
                word = self.load();
                continue;
            };
            if permits > free {
                match self.refuse(word, permits, quota) {
                    Ok(refusal) => return Decision::Refused(refusal),
                    Err(found) => word = found,
                }
                continue;
            }
            // Relaxed: it goes on with the release sequence of who opened the bucket, and it is the
            // order of the word alone by which permits are taken.
            match self.newest.compare_exchange_weak(
                word,
                word + permits,
                Ordering::Relaxed,
                // As in `load`, which would take more instructions here.
                Ordering::Acquire,
            ) {
                Ok(_) => return Decision::Admitted(()),
                Err(found) => word = found,
            }
        }
    }

    /// The word of the newest bucket. After a failed compare-exchange, this returns the word that it found, or a later one.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of `take`")]
    fn load(&self) -> u64 {
        // Acquire: pairs with the Release in `open`.
        self.newest.load(Ordering::Acquire)
    }

    /// What to tell who asks for so many of a full window; the word, if that is of another window by now.
    #[inline]
    fn refuse(&self, word: u64, permits: u64, quota: &impl Quota) -> Result<Refusal, u64> {
        let newest = self.layout.read(word);
        let full = Full { number: newest.number, taken: newest.count, permits };
        let refusal = quota.refuse(self, &full);
        // What was looked at for that may be of a later bucket by now. Whoever finds such a thing has acquired
        // it, and finds the word changed.
        let found = self.load();
        if self.layout.is_same_bucket(word, found) { Ok(refusal) } else { Err(found) }
    }

    /// One step towards a bucket that is not older than `number`, and the word after it.
    #[cold]
    fn roll(&self, word: u64, number: u64, quota: &impl Quota) -> u64 {
        let newest = self.layout.read(word);
        if !newest.flag {
            let closed = self.layout.flagged(word);
            // Relaxed, as in `take`.
            let (to, order) = (closed, Ordering::Relaxed);
            return match self.newest.compare_exchange(word, to, order, order) {
                Ok(_) => closed,
                Err(_) => self.load(),
            };
        }
        let permits = self.permits_in(&newest);
        self.note(newest.number, permits);
        quota.close(newest.number, newest.count, permits);
        // Who closed it had seen a later one.
        self.open(word, number.max(newest.number + 1))
    }

    /// Notes what was taken in a bucket that is closed, unless somebody has.
    ///
    /// Should others have gone on meanwhile, and `permits` be nonsense, then they have noted it before.
    fn note(&self, number: u64, permits: u64) {
        let slot = &self.closed[self.config.slot_of(number)];
        let closed = self.layout.flagged(self.layout.word(number, 0));
        let mut found = slot.load(Ordering::Relaxed);
        while found < closed {
            // Release: pairs with the Acquire in `notes`.
            let note = closed | permits;
            match slot.compare_exchange(found, note, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => found = newer,
            }
        }
    }

    /// Opens a bucket, with what those before it in its window have, and gives the word after that.
    fn open(&self, word: u64, number: u64) -> u64 {
        let opened = self.layout.word(number, self.noted(number));
        // Release: who sees the bucket open finds what was noted of those before it, by this thread or
        // by whoever it has seen to have noted it. Against the very word that was seen closed: while
        // that is there, so is what was added up.
        match self.newest.compare_exchange(word, opened, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => {
                let oldest = self.notes(number).find(|&(_, permits)| permits > 0);
                // Release: who finds it finds the bucket open, and so a word that is not that of an earlier
                // one. Who stalls before this, and stores late, stores one that was the oldest of an older
                // window.
                self.oldest.store(oldest.map_or(number, |(oldest, _)| oldest), Ordering::Release);
                opened
            }
            Err(_) => self.load(),
        }
    }

    /// What was noted of the window that ends with a bucket: that which is before it, while it is the
    /// newest.
    fn noted(&self, number: u64) -> u64 {
        self.notes(number).map(|(_, permits)| permits).sum()
    }

    /// The buckets of the window that ends with `number` of which something was noted, and their permits,
    /// in the order of time.
    fn notes(&self, number: u64) -> impl Iterator<Item = (u64, u64)> {
        let numbers = run(number, self.closed.len() as u64);
        let (newer, older) = self.closed.split_at(self.config.slot_of(*numbers.start()));
        numbers
            .zip(older.iter().chain(newer))
            .filter_map(|(number, slot)| Some((number, self.note_in(slot, number)?)))
    }

    /// What was noted of a bucket, if its slot is not another's.
    fn note_in(&self, slot: &AtomicU64, number: u64) -> Option<u64> {
        // Acquire: pairs with the Release in `note`. Who finds a later bucket there than it looked
        // for finds the word changed, too.
        let note = self.layout.read(slot.load(Ordering::Acquire));
        (note.number == number && note.flag).then_some(note.count)
    }

    /// What was taken in the newest bucket itself.
    fn permits_in(&self, newest: &Word) -> u64 {
        let before = self.notes(newest.number).filter(|&(number, _)| number < newest.number);
        newest.count.saturating_sub(before.map(|(_, permits)| permits).sum())
    }

    /// The permits that the window has at `now`, without anything being closed for that.
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

    /// When so many of the permits will have left that the window has which ends with bucket `number`; the
    /// look is worth something if that is still the newest afterwards. `None` if time ends before.
    //
    // Out of line: a decision that admits has room in the registers then. Not all of the refusal, which is
    // larger than what is returned in registers: who reads it from memory waits for what was just written.
    #[inline(never)]
    pub(super) fn leave_at(&self, number: u64, permits: u64) -> Option<Timestamp> {
        // Acquire: pairs with the Release in `open`.
        let oldest = self.oldest.load(Ordering::Acquire);
        // If it is newer than the bucket, the word has changed since. If it was the oldest of an older window,
        // and is in this one with permits, then it is the oldest of this one, too.
        let is_within = number.wrapping_sub(oldest) < self.closed.len() as u64;
        if is_within && (oldest == number || self.has_noted(oldest, permits)) {
            return self.leaves_at(oldest);
        }
        self.look_when_leave(number, permits)
    }

    /// Whether so many were noted of a bucket.
    #[inline]
    fn has_noted(&self, number: u64, permits: u64) -> bool {
        let slot = &self.closed[self.config.slot_of(number)];
        self.note_in(slot, number).is_some_and(|noted| noted >= permits)
    }

    #[cold]
    fn look_when_leave(&self, number: u64, permits: u64) -> Option<Timestamp> {
        let mut left = 0;
        let mut before = self.notes(number).take_while(|&(noted, _)| noted < number);
        let last = before.find(|(_, noted)| {
            left += noted;
            left >= permits
        });
        // If those before it have too few, it is some of the newest.
        self.leaves_at(last.map_or(number, |(last, _)| last))
    }

    /// The beginning of the first window without a bucket.
    fn leaves_at(&self, number: u64) -> Option<Timestamp> {
        self.begins(number.checked_add(self.closed.len() as u64)?)
    }

    /// The beginning of the window that ends with a bucket.
    pub(super) fn oldest(&self, number: u64) -> Timestamp {
        self.config.start_of(*run(number, self.closed.len() as u64).start())
    }

    /// The last nanosecond of a bucket.
    pub(super) fn last_moment(&self, number: u64) -> Timestamp {
        let last = self.config.bucket_nanos() - 1;
        self.config.start_of(number).saturating_add(Duration::from_nanos(last))
    }

    /// The beginning of a bucket; `None` if time ends before.
    pub(super) fn begins(&self, number: u64) -> Option<Timestamp> {
        number.checked_mul(self.config.bucket_nanos()).map(Timestamp::from_nanos)
    }
}

/// How many permits a window has: what tells one limiter from another.
pub(super) trait Quota {
    /// How many are free in the window that ends with a bucket, if so many of it were taken; `None` for
    /// that to be looked up anew.
    fn free(&self, number: u64, taken: u64) -> Option<u64>;

    /// What to tell those for whom too few are free.
    fn refuse(&self, window: &PermitWindow, full: &Full) -> Refusal;

    /// Told of each bucket that is closed, before the next is opened: its number, and the permits of
    /// the window that ends with it and of the bucket itself.
    ///
    /// It may be told more than once. If others are at it too, and ahead, then of a bucket that they have
    /// told of, and figures that are nonsense.
    #[inline]
    fn close(&self, _number: u64, _of_window: u64, _of_bucket: u64) {}
}

/// There are too few permits free.
pub(super) struct Full {
    /// The bucket with which the window ends.
    pub(super) number: u64,
    /// How many of the window are taken.
    pub(super) taken: u64,
    /// How many more were asked for.
    pub(super) permits: u64,
}

impl Full {
    /// How many have to leave before there are as many in a window of `limit` as were asked for.
    pub(super) const fn excess(&self, limit: u64) -> u64 {
        self.taken.saturating_add(self.permits).saturating_sub(limit)
    }
}
