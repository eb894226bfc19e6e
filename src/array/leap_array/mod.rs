//! The array: look-up, rotation, reads and the ledger.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::TryLockError;

use super::bucket::Bucket;
use super::guard::{BucketGuard, CurrentBucket};
use super::ledger::Ledger;
use super::retired::Retired;
use super::ring::Ring;
use crate::sync::stall::{self, Point};
use crate::sync::{Arc, Backoff, Mutex, RacyOnce, Slot};
use crate::time::{Timestamp, WindowConfig};

/// A ring of buckets over time, after Sentinel's `LeapArray`; lock-free, and exact at rollover.
///
/// Bucket `k` is in slot `k mod N`. Sentinel resets a stale bucket in place. This array swaps a
/// fresh [`BucketWrap`](crate::array::BucketWrap) in, so a thread that still has the stale one
/// pinned adds to a bucket that has left the window, and never to another bucket.
///
/// Every operation takes `now`; the array has no clock. Memory is allocated when it is first
/// needed. In steady state, a rotation recycles wraps and allocates nothing, unless the retired
/// wraps are still pinned. Reads allocate nothing, except for [`ledger`](Self::ledger).
///
/// ```
/// use leaparray::{MetricEvent, Timestamp, WindowConfig};
/// use leaparray::array::LeapArray;
/// use leaparray::metric::MetricBucket;
/// use std::time::Duration;
///
/// let array = LeapArray::<MetricBucket>::new(WindowConfig::new(2, Duration::from_secs(1))?);
/// let t = Timestamp::from_millis;
/// array.current_bucket(t(700)).add(MetricEvent::Pass, 3);
/// array.current_bucket(t(1_100)).add(MetricEvent::Pass, 4);
///
/// let starts = array.values(t(1_100)).map(|wrap| wrap.start());
/// assert!(starts.eq([t(500), t(1_000)]));
/// // Half a second on, the first of the two has left the window.
/// assert!(array.values(t(1_500)).map(|wrap| wrap.start()).eq([t(1_000)]));
/// # Ok::<_, leaparray::time::ConfigError>(())
/// ```
pub struct LeapArray<B: Bucket> {
    config: WindowConfig,
    ring: RacyOnce<Ring<B>>,
    retired: Slot<Retired<B>>,
    late: RacyOnce<B>,
    /// The try-lock of a rotation, and the memory that only its holder uses.
    rotation_lock: Mutex<Spare<B>>,
}

/// A list that was replaced, whose memory the next list uses.
type Spare<B> = Option<Arc<Retired<B>>>;

impl<B: Bucket> LeapArray<B> {
    /// Creates an empty array. It allocates memory when it is first used.
    #[must_use]
    pub fn new(config: WindowConfig) -> Self {
        Self {
            config,
            ring: RacyOnce::new(),
            retired: Slot::empty(),
            late: RacyOnce::new(),
            rotation_lock: Mutex::new(None),
        }
    }

    /// Returns the geometry.
    #[must_use]
    #[inline]
    pub const fn config(&self) -> &WindowConfig {
        &self.config
    }

    /// Returns the bucket in which to record at `now`. If the bucket is not in the ring yet, the
    /// calling thread puts it there.
    ///
    /// If the slot has a newer bucket already, `now` is late, and this returns the array's
    /// [late bucket](CurrentBucket::Late), so that no count is lost.
    ///
    /// Lock-free: usually, one thread at a time replaces a stale bucket. Other threads yield to it
    /// a bounded number of times and then proceed without it, so a stalled thread blocks no other.
    pub fn current_bucket(&self, now: Timestamp) -> CurrentBucket<'_, B> {
        let start = self.config.bucket_start(now);
        let slot = self.config.slot(now);
        let ring = self.ring.get_or_init(|| Ring::new(self.config));
        let mut backoff = Backoff::new();
        loop {
            let Some(observed) = ring.pin(slot) else {
                self.install(ring, None, ring.make(start), start, &mut None);
                continue;
            };
            match observed.start().cmp(&start) {
                Equal => return CurrentBucket::InTime(observed),
                Greater => return CurrentBucket::Late(self.late.get_or_init(B::default)),
                Less => self.rotate(ring, &observed, start, &mut backoff),
            }
        }
    }

    /// Replaces the stale wrap `observed`, or yields once to the thread that already does so.
    fn rotate(
        &self,
        ring: &Ring<B>,
        observed: &BucketGuard<'_, B>,
        start: Timestamp,
        backoff: &mut Backoff,
    ) {
        let mut lock = match self.rotation_lock.try_lock() {
            Ok(lock) => Some(lock),
            // A bucket has panicked while it was added up or reset. The spare list is still valid.
            Err(TryLockError::Poisoned(lock)) => Some(lock.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if lock.is_none() && backoff.snooze() {
            return;
        }
        stall::at(Point::Rotating);
        // The lock holder may have stalled: proceed without the lock, and without its spare list.
        let mut none = None;
        let spare = lock.as_deref_mut().unwrap_or(&mut none);
        // The lock only saves threads from doing the same work at once. A second swap is prevented
        // by the compare-exchange against the observed wrap.
        if ring.is_in_slot(observed.index(), observed.start()) {
            let unused = self.edit_retired(spare, |list| {
                list.reclaim(ring);
                list.retire(observed);
                list.take_free(ring)
            });
            if let Some(fresh) = self.fresh_wrap(ring, observed, unused, start, spare) {
                self.install(ring, Some(observed), fresh, start, spare);
            }
        }
    }

    /// Returns a wrap with that start that belongs to the calling thread: the wrap with index
    /// `unused`, another free wrap, or a new wrap. Returns `None` if another thread has replaced
    /// `observed`.
    fn fresh_wrap(
        &self,
        ring: &Ring<B>,
        observed: &BucketGuard<'_, B>,
        mut unused: Option<u32>,
        start: Timestamp,
        spare: &mut Spare<B>,
    ) -> Option<u32> {
        while let Some(index) = unused {
            // Checked after this thread has taken the wrap, so that no other thread can take it. If
            // the wrap was last used for this very bucket, it has been in the slot, so `observed`
            // is no longer there, and this check fails. So no wrap is used twice for the same
            // bucket, and no two wraps of one bucket are ever in its slot. All comparisons of
            // starts rely on this.
            if !ring.is_in_slot(observed.index(), observed.start()) {
                stall::at(Point::RecycleRefused);
                self.edit_retired(spare, |list| list.return_free(index));
                return None;
            }
            if ring.wrap(index).recycle(start) {
                return Some(index);
            }
            stall::at(Point::RecycleRefused);
            unused = self.edit_retired(spare, |list| {
                // A thread that read this index earlier, from a slot or from an older list, has the
                // wrap pinned.
                list.return_free(index);
                list.take_free(ring)
            });
        }
        Some(ring.make(start))
    }

    /// Puts a wrap with that start into its slot, unless another thread has put a wrap there first.
    fn install(
        &self,
        ring: &Ring<B>,
        observed: Option<&BucketGuard<'_, B>>,
        fresh: u32,
        start: Timestamp,
        spare: &mut Spare<B>,
    ) {
        if !ring.swap(self.config.slot(start), observed, fresh) {
            stall::at(Point::SwapLost);
            // The caller retries, and finds the other thread's wrap.
            self.edit_retired(spare, |list| list.return_free(fresh));
        }
    }

    /// Edits a copy of the list, and swaps it in. If another thread has swapped the list, retries
    /// with a copy of the new list.
    fn edit_retired<R>(&self, spare: &mut Spare<B>, edit: impl Fn(&mut Retired<B>) -> R) -> R {
        let mut after = spare.take().unwrap_or_else(|| Arc::new(Retired::new(B::Total::default())));
        loop {
            let before = self.retired.load();
            stall::at(Point::ListRead);
            let list = Arc::get_mut(&mut after).expect("no other thread refers to a spare list");
            list.copy(before.get());
            let result = edit(list);
            stall::at(Point::ListEdited);
            match self.retired.compare_and_swap(&before, after) {
                Ok(replaced) => {
                    stall::at(Point::ListSwapped);
                    drop(before);
                    *spare = replaced.filter(|list| Arc::strong_count(list) == 1);
                    return result;
                }
                Err(unused) => after = unused,
            }
        }
    }

    /// Returns the bucket before the bucket of `now`, if it is in the ring and the window covers
    /// it. A window of one bucket never covers it.
    pub fn previous_bucket(&self, now: Timestamp) -> Option<BucketGuard<'_, B>> {
        let covered = self.config.covered(now);
        let previous = covered.end().checked_sub(1)?;
        if covered.contains(&previous) { self.wrap(previous) } else { None }
    }

    /// Returns the buckets that the window covers at `now`, from the oldest to the newest. It
    /// leaves out each bucket that no thread has asked for by
    /// [`current_bucket`](Self::current_bucket), and, for a stale `now`, each bucket that a later
    /// one has replaced.
    pub fn values(&self, now: Timestamp) -> impl Iterator<Item = BucketGuard<'_, B>> {
        self.wraps(self.config.covered(now))
    }

    /// Returns the buckets of [`values`](Self::values) whose start `predicate` accepts. `predicate`
    /// is called once for each bucket of the window, before the bucket is looked up.
    pub fn values_conditional(
        &self,
        now: Timestamp,
        mut predicate: impl FnMut(Timestamp) -> bool,
    ) -> impl Iterator<Item = BucketGuard<'_, B>> {
        let covered = self.config.covered(now);
        covered
            .filter(move |&number| predicate(self.config.start_of(number)))
            .filter_map(|number| self.wrap(number))
    }

    /// Returns the wraps of the given bucket numbers that are in the ring.
    pub(crate) fn wraps(
        &self,
        numbers: RangeInclusive<u64>,
    ) -> impl Iterator<Item = BucketGuard<'_, B>> {
        numbers.filter_map(|number| self.wrap(number))
    }

    fn wrap(&self, number: u64) -> Option<BucketGuard<'_, B>> {
        let held = self.ring.get()?.pin(self.config.slot_of(number))?;
        (held.start() == self.config.start_of(number)).then_some(held)
    }

    /// Returns the end of the newest bucket that a thread has asked for by `current_bucket`; `None`
    /// if there is none.
    pub(crate) fn newest_end(&self) -> Option<Timestamp> {
        // A wrap that has left its slot is older than the wrap that is there now.
        let newest = self.ring.get()?.pin_all().flatten().map(|wrap| wrap.start()).max()?;
        Some(newest.saturating_add(self.config.bucket_len()))
    }

    /// Folds the results of `look` on the buckets that the window covers at `now`, in any order.
    ///
    /// This is the cheapest read: it pins nothing. If a bucket is replaced in its slot while `look`
    /// reads it, the result is discarded. `look` may also see empty buckets that another thread is
    /// preparing. So use this to add up counts, not to count buckets.
    ///
    /// ```
    /// use leaparray::{MetricEvent, Timestamp, WindowConfig};
    /// use leaparray::array::LeapArray;
    /// use leaparray::metric::MetricBucket;
    /// use std::time::Duration;
    ///
    /// let array = LeapArray::<MetricBucket>::new(WindowConfig::new(2, Duration::from_secs(1))?);
    /// let t = Timestamp::from_millis;
    /// array.current_bucket(t(700)).add(MetricEvent::Pass, 3);
    /// array.current_bucket(t(1_100)).add(MetricEvent::Pass, 4);
    /// let passes = |bucket: &MetricBucket| bucket.sum(MetricEvent::Pass);
    /// let sum_at = |now| array.fold(now, 0, passes, |sum, found| sum + found);
    /// assert_eq!((sum_at(t(1_100)), sum_at(t(1_500))), (7, 4));
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    pub fn fold<R, T>(
        &self,
        now: Timestamp,
        init: T,
        look: impl Fn(&B) -> R,
        add: impl FnMut(T, R) -> T,
    ) -> T {
        self.fold_over(self.config.covered(now), init, look, add)
    }

    /// Folds like [`fold`](Self::fold), over the buckets with consecutive numbers.
    #[inline]
    pub(crate) fn fold_over<R, T>(
        &self,
        numbers: RangeInclusive<u64>,
        init: T,
        look: impl Fn(&B) -> R,
        add: impl FnMut(T, R) -> T,
    ) -> T {
        match self.ring.get() {
            Some(ring) => ring.fold(numbers, init, look, add),
            None => init,
        }
    }

    /// Returns all counts, by whether the window at `now` covers them.
    ///
    /// The ledger has each add once. It has every add that returned before the call, and may have
    /// adds that other threads make at the same time. From call to call,
    /// [`recorded`](Ledger::recorded) only grows.
    ///
    /// Reads each slot once, and again if another thread has rotated it. Allocates a list of the
    /// slots.
    pub fn ledger(&self, now: Timestamp) -> Ledger<B::Total> {
        self.ledger_over(&self.config.covered(now))
    }

    pub(crate) fn ledger_over(&self, covered: &RangeInclusive<u64>) -> Ledger<B::Total> {
        let mut ledger = Ledger::default();
        let Some(ring) = self.ring.get() else { return ledger };
        // The wraps in all slots are pinned first, then the list is loaded. A wrap that had left
        // its slot by then was retired before that, and a wrap that is pinned here cannot be
        // reclaimed. So each wrap is found in a slot, in the list, or in both. In the list, its
        // start tells whether it was found in a slot.
        let slots: Vec<_> = ring.pin_all().collect();
        for wrap in slots.iter().flatten() {
            let in_window = covered.contains(&self.config.bucket_number(wrap.start()));
            let part = if in_window { &mut ledger.in_window } else { &mut ledger.expired };
            *part += &wrap.bucket().total();
        }
        stall::at(Point::SlotsPinned);
        let is_counted = |start| {
            let found = slots[self.config.slot(start)].as_ref();
            found.is_some_and(|wrap| wrap.start() == start)
        };
        ledger.expired += &self.retired_total(ring, is_counted);
        ledger.late = self.late.get().map(B::total).unwrap_or_default();
        ledger
    }

    /// Returns the total of all retired wraps, except the wraps for whose start `is_counted` holds.
    fn retired_total(&self, ring: &Ring<B>, is_counted: impl Fn(Timestamp) -> bool) -> B::Total {
        loop {
            let retired = self.retired.load();
            let Some(list) = retired.get() else { return B::Total::default() };
            // `None`: a wrap of this list has been recycled, so there is a newer list.
            if let Some(total) = list.total(ring, &is_counted) {
                return total;
            }
        }
    }
}

impl<B: Bucket> fmt::Debug for LeapArray<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeapArray").field("config", &self.config).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
impl<B: Bucket> LeapArray<B> {
    /// Returns the number of wraps that were made.
    pub(crate) fn wraps_made(&self) -> u64 {
        self.ring.get().map_or(0, Ring::len).into()
    }

    /// Returns the numbers of pending and of free wraps in the retired list.
    pub(crate) fn wraps_listed(&self) -> (u64, u64) {
        let retired = self.retired.load();
        let count = |len: fn(&Retired<B>) -> usize| retired.get().map_or(0, len) as u64;
        (count(Retired::pending_len), count(Retired::free_len))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
