//! The ring of atomically swapped wraps.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::TryLockError;

use super::account::Account;
use super::bucket::Bucket;
use super::guard::{BucketGuard, CurrentBucket};
use super::retired::Retired;
use super::ring::Ring;
use crate::sync::stall::{self, Point};
use crate::sync::{Arc, Backoff, Lazy, Mutex, Slot};
use crate::time::{Timestamp, WindowConfig};

/// A ring of buckets over time, after Sentinel's `LeapArray`; lock-free, and exact at rollover.
///
/// The bucket number `k` of a time lives in slot `k mod N`. Where Sentinel resets a stale bucket
/// in place, this ring swaps a fresh [`BucketWrap`](crate::BucketWrap) in: whoever still holds the
/// old one adds to what has left the window, and never to another bucket.
///
/// Every operation takes `now`; the ring has no clock. It takes memory as it is first used, and in
/// steady state uses that again: a rotation allocates nothing, unless the wraps that were retired are
/// still held. Reading allocates nothing, but for [`account`](Self::account).
///
/// ```
/// use leaparray::{LeapArray, MetricBucket, MetricEvent, Timestamp, WindowConfig};
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
/// # Ok::<_, leaparray::ConfigError>(())
/// ```
pub struct LeapArray<B: Bucket> {
    config: WindowConfig,
    ring: Lazy<Ring<B>>,
    retired: Slot<Retired<B>>,
    late: Lazy<B>,
    /// The reset try-lock, around what only its owner may use.
    rotation_lock: Mutex<Spare<B>>,
}

/// A list that another one has taken the place of: the memory of the next one.
type Spare<B> = Option<Arc<Retired<B>>>;

impl<B: Bucket> LeapArray<B> {
    /// An array in which nothing has been recorded. It takes memory when it is first used.
    #[must_use]
    pub fn new(config: WindowConfig) -> Self {
        Self {
            config,
            ring: Lazy::new(),
            retired: Slot::empty(),
            late: Lazy::new(),
            rotation_lock: Mutex::new(None),
        }
    }

    /// The geometry.
    #[must_use]
    #[inline]
    pub const fn config(&self) -> &WindowConfig {
        &self.config
    }

    /// The bucket to record in at `now`: that of `now`'s number, made if it is not there yet.
    ///
    /// If the slot already holds a newer bucket, `now` is late and the array's
    /// [late bucket](CurrentBucket::Late) is returned instead, so that nothing is lost.
    ///
    /// Lock-free. One thread at a time replaces a stale bucket; others yield meanwhile, but only a
    /// bounded number of times, so that no stalled thread can hold them up.
    pub fn current_bucket(&self, now: Timestamp) -> CurrentBucket<'_, B> {
        let start = self.config.bucket_start(now);
        let slot = self.config.slot(now);
        let ring = self.ring.get_or_make(|| Ring::new(self.config));
        let mut backoff = Backoff::new();
        loop {
            let Some(observed) = ring.pin(slot) else {
                self.install(ring, None, ring.make(start), start, &mut None);
                continue;
            };
            match observed.start().cmp(&start) {
                Equal => return CurrentBucket::InTime(observed),
                Greater => return CurrentBucket::Late(self.late.get_or_make(B::default)),
                Less => self.rotate(ring, &observed, start, &mut backoff),
            }
        }
    }

    /// Replaces the stale wrap that was `observed`, or leaves it to who is at it already.
    fn rotate(
        &self,
        ring: &Ring<B>,
        observed: &BucketGuard<'_, B>,
        start: Timestamp,
        backoff: &mut Backoff,
    ) {
        let mut lock = match self.rotation_lock.try_lock() {
            Ok(lock) => Some(lock),
            // Of a bucket that panicked when it was added up. The spare list is none the worse.
            Err(TryLockError::Poisoned(lock)) => Some(lock.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if lock.is_none() && backoff.snooze() {
            return;
        }
        stall::at(Point::Rotating);
        // Whoever has the lock may have stalled: without it, and without its spare memory.
        let mut none = None;
        let spare = lock.as_deref_mut().unwrap_or(&mut none);
        // The lock only spares a herd the work. What keeps a second swap out is that each is
        // against the wrap that was observed.
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

    /// A wrap of that start that is nobody else's, the one of index `unused` or another; `None` if
    /// `observed` was replaced meanwhile.
    fn fresh_wrap(
        &self,
        ring: &Ring<B>,
        observed: &BucketGuard<'_, B>,
        mut unused: Option<u32>,
        start: Timestamp,
        spare: &mut Spare<B>,
    ) -> Option<u32> {
        while let Some(index) = unused {
            // Only now that nobody else can take it. If its last use was this very bucket, that was
            // in the slot, and is seen here to have taken the place of `observed`: no wrap is in use
            // for the same start twice, which is what those who look at starts rely on.
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
                // Somebody who accounts for everything may have it from an older list.
                list.return_free(index);
                list.take_free(ring)
            });
        }
        Some(ring.make(start))
    }

    /// Puts a wrap of that start in its slot, unless another thread was faster.
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
            // The winner's wrap is found at the next look.
            self.edit_retired(spare, |list| list.return_free(fresh));
        }
    }

    /// Swaps in what `edit` makes of a copy of the list: once for each time another was faster.
    fn edit_retired<R>(&self, spare: &mut Spare<B>, edit: impl Fn(&mut Retired<B>) -> R) -> R {
        let mut after = spare.take().unwrap_or_else(|| Arc::new(Retired::new(B::Total::default())));
        loop {
            let before = self.retired.load();
            stall::at(Point::ListRead);
            let list = Arc::get_mut(&mut after).expect("a spare list is nobody else's");
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

    /// The bucket before that of `now`, if it is there and the window covers it: with one bucket
    /// in the ring there is none.
    pub fn previous_bucket(&self, now: Timestamp) -> Option<BucketGuard<'_, B>> {
        let covered = self.config.covered(now);
        let previous = covered.end().checked_sub(1)?;
        if covered.contains(&previous) { self.wrap(previous) } else { None }
    }

    /// The buckets that the window covers at `now`, from the oldest to the newest, without those
    /// that nobody has asked for to record in.
    pub fn values(&self, now: Timestamp) -> impl Iterator<Item = BucketGuard<'_, B>> {
        self.wraps(self.config.covered(now))
    }

    /// Those of [`values`](Self::values) whose start `predicate` accepts.
    ///
    /// The predicate is asked before the bucket is looked up, once for each bucket of the window.
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

    /// The wraps of the given bucket numbers that are there.
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

    /// The end of the newest bucket that anybody has asked for to record in; `None` if nobody ever did.
    pub(crate) fn newest_end(&self) -> Option<Timestamp> {
        // Whatever has left its slot was older than what is there.
        let newest = self.ring.get()?.pin_all().flatten().map(|wrap| wrap.start()).max()?;
        Some(newest.saturating_add(self.config.bucket_len()))
    }

    /// Folds what `look` finds in the buckets that the window covers at `now`, in any order.
    ///
    /// The cheapest way to read: it holds nothing. Should a bucket leave the window while it is looked
    /// at, what was found is not added; and `look` may be shown empty buckets besides, which are being
    /// prepared. So it is for adding up, and not for counting buckets.
    ///
    /// ```
    /// use leaparray::{LeapArray, MetricBucket, MetricEvent, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let array = LeapArray::<MetricBucket>::new(WindowConfig::new(2, Duration::from_secs(1))?);
    /// let t = Timestamp::from_millis;
    /// array.current_bucket(t(700)).add(MetricEvent::Pass, 3);
    /// array.current_bucket(t(1_100)).add(MetricEvent::Pass, 4);
    /// let passes = |bucket: &MetricBucket| bucket.sum(MetricEvent::Pass);
    /// let sum_at = |now| array.fold(now, 0, passes, |sum, found| sum + found);
    /// assert_eq!((sum_at(t(1_100)), sum_at(t(1_500))), (7, 4));
    /// # Ok::<_, leaparray::ConfigError>(())
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

    /// The same for the buckets of the given numbers, which follow each other.
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

    /// Where everything that was ever added is, as seen from `now`.
    ///
    /// One coherent look: each add is counted once. An add that returned before this began is
    /// counted; one that runs meanwhile may be. From look to look what was recorded only grows.
    ///
    /// Takes one look at each slot, and another only where somebody else has rotated it meanwhile; it
    /// allocates a list of them.
    pub fn account(&self, now: Timestamp) -> Account<B::Total> {
        self.account_over(&self.config.covered(now))
    }

    pub(crate) fn account_over(&self, covered: &RangeInclusive<u64>) -> Account<B::Total> {
        let mut account = Account::default();
        let Some(ring) = self.ring.get() else { return account };
        // The slots first, and all of them held. A wrap that was missed because it had left its
        // slot was retired before it left; one that is held here cannot be settled any more. So
        // each is found once here or in `retired`, and if in both, then by its start.
        let slots: Vec<_> = ring.pin_all().collect();
        for wrap in slots.iter().flatten() {
            let in_window = covered.contains(&self.config.bucket_number(wrap.start()));
            let part = if in_window { &mut account.in_window } else { &mut account.expired };
            *part += &wrap.bucket().total();
        }
        stall::at(Point::SlotsPinned);
        let is_counted = |start| {
            let found = slots[self.config.slot(start)].as_ref();
            found.is_some_and(|wrap| wrap.start() == start)
        };
        account.expired += &self.retired_total(ring, is_counted);
        account.late = self.late.get().map(B::total).unwrap_or_default();
        account
    }

    /// The total of what was ever retired, but for the wraps that `is_counted` knows already.
    fn retired_total(&self, ring: &Ring<B>, is_counted: impl Fn(Timestamp) -> bool) -> B::Total {
        loop {
            let retired = self.retired.load();
            let Some(list) = retired.get() else { return B::Total::default() };
            // None: a wrap of this list is in use again, so that there is another list now.
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
    /// How many wraps were made.
    pub(crate) fn wraps_made(&self) -> u64 {
        self.ring.get().map_or(0, Ring::len).into()
    }

    /// How many wraps are in the retired list: those that may still be added to, and the free ones.
    pub(crate) fn wraps_listed(&self) -> (u64, u64) {
        let retired = self.retired.load();
        let count = |len: fn(&Retired<B>) -> usize| retired.get().map_or(0, len) as u64;
        (count(Retired::pending_len), count(Retired::free_len))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
