//! The ring of atomically swapped wraps.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::TryLockError;

use crate::account::Account;
use crate::bucket::Bucket;
use crate::geometry::WindowConfig;
use crate::hold::{CurrentBucket, WrapRef};
use crate::retired::Retired;
use crate::ring::Ring;
use crate::sync::stall::{self, Point};
use crate::sync::{Arc, Lazy, Mutex, Patience, Slot, unique};
use crate::timestamp::Timestamp;

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
    /// Which array this is, of all there ever were in this process.
    id: u64,
    config: WindowConfig,
    ring: Lazy<Ring<B>>,
    retired: Slot<Retired<B>>,
    late: Lazy<B>,
    /// The reset try-lock, around what only its owner may use.
    reset: Mutex<Spare<B>>,
}

/// A list that another one has taken the place of: the memory of the next one.
type Spare<B> = Option<Arc<Retired<B>>>;

impl<B: Bucket> LeapArray<B> {
    /// An array in which nothing has been recorded. It takes memory when it is first used.
    #[must_use]
    pub fn new(config: WindowConfig) -> Self {
        Self {
            id: unique(),
            config,
            ring: Lazy::new(),
            retired: Slot::empty(),
            late: Lazy::new(),
            reset: Mutex::new(None),
        }
    }

    /// The geometry.
    #[must_use]
    #[inline]
    pub const fn config(&self) -> &WindowConfig {
        &self.config
    }

    #[inline]
    pub(crate) const fn id(&self) -> u64 {
        self.id
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
        let mut patience = Patience::new();
        loop {
            let Some(observed) = ring.hold(slot) else {
                self.put(ring, None, ring.make(start), start, &mut None);
                continue;
            };
            match observed.start().cmp(&start) {
                Equal => return CurrentBucket::InTime(observed),
                Greater => return CurrentBucket::Late(self.late.get_or_make(B::default)),
                Less => self.reset(ring, &observed, start, &mut patience),
            }
        }
    }

    /// Replaces the stale wrap that was `observed`, or leaves it to who is at it already.
    fn reset(
        &self,
        ring: &Ring<B>,
        observed: &WrapRef<'_, B>,
        start: Timestamp,
        patience: &mut Patience,
    ) {
        let mut lock = match self.reset.try_lock() {
            Ok(lock) => Some(lock),
            // Of a bucket that panicked when it was added up. The spare list is none the worse.
            Err(TryLockError::Poisoned(lock)) => Some(lock.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if lock.is_none() && patience.wait() {
            return;
        }
        stall::at(Point::Resetting);
        // Whoever has the lock may have stalled: without it, and without its spare memory.
        let mut none = None;
        let spare = lock.as_deref_mut().unwrap_or(&mut none);
        // The lock only spares a herd the work. What keeps a second swap out is that each is
        // against the wrap that was observed.
        if ring.has(observed.index(), observed.start()) {
            let unused = self.edit_retired(spare, |list| {
                list.settle(ring);
                list.retire(observed);
                list.take_unused(ring)
            });
            if let Some(fresh) = self.renew(ring, observed, unused, start, spare) {
                self.put(ring, Some(observed), fresh, start, spare);
            }
        }
    }

    /// A wrap of that start that is nobody else's, the one of index `unused` or another; `None` if
    /// `observed` was replaced meanwhile.
    fn renew(
        &self,
        ring: &Ring<B>,
        observed: &WrapRef<'_, B>,
        mut unused: Option<u32>,
        start: Timestamp,
        spare: &mut Spare<B>,
    ) -> Option<u32> {
        while let Some(index) = unused {
            // Only now that nobody else can take it. If its last use was this very bucket, that was
            // in the slot, and is seen here to have taken the place of `observed`: no wrap is in use
            // for the same start twice, which is what those who look at starts rely on.
            let is_stale = ring.has(observed.index(), observed.start());
            if is_stale && ring.wrap(index).renew(start) {
                return Some(index);
            }
            stall::at(Point::RenewRefused);
            unused = self.edit_retired(spare, |list| {
                // Somebody who accounts for everything may have it from an older list.
                list.give_back(index);
                if is_stale { list.take_unused(ring) } else { None }
            });
            if !is_stale {
                return None;
            }
        }
        Some(ring.make(start))
    }

    /// Puts a wrap of that start in its slot, unless another thread was faster.
    fn put(
        &self,
        ring: &Ring<B>,
        observed: Option<&WrapRef<'_, B>>,
        fresh: u32,
        start: Timestamp,
        spare: &mut Spare<B>,
    ) {
        if !ring.swap(self.config.slot(start), observed, fresh) {
            stall::at(Point::SwapLost);
            // The winner's wrap is found at the next look.
            self.edit_retired(spare, |list| list.give_back(fresh));
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
    pub fn previous_bucket(&self, now: Timestamp) -> Option<WrapRef<'_, B>> {
        let covered = self.config.covered(now);
        let previous = covered.end().checked_sub(1)?;
        if covered.contains(&previous) { self.wrap(previous) } else { None }
    }

    /// The buckets that the window covers at `now`, from the oldest to the newest, without those
    /// that nobody has asked for to record in.
    pub fn values(&self, now: Timestamp) -> impl Iterator<Item = WrapRef<'_, B>> {
        self.wraps(self.config.covered(now))
    }

    /// Those of [`values`](Self::values) whose start `predicate` accepts.
    ///
    /// The predicate is asked before the bucket is looked up, once for each bucket of the window.
    pub fn values_conditional(
        &self,
        now: Timestamp,
        mut predicate: impl FnMut(Timestamp) -> bool,
    ) -> impl Iterator<Item = WrapRef<'_, B>> {
        let covered = self.config.covered(now);
        covered
            .filter(move |&number| predicate(self.config.start_of(number)))
            .filter_map(|number| self.wrap(number))
    }

    /// The wraps of the given bucket numbers that are there.
    pub(crate) fn wraps(
        &self,
        numbers: RangeInclusive<u64>,
    ) -> impl Iterator<Item = WrapRef<'_, B>> {
        numbers.filter_map(|number| self.wrap(number))
    }

    fn wrap(&self, number: u64) -> Option<WrapRef<'_, B>> {
        let held = self.ring.get()?.hold(self.config.slot_of(number))?;
        (held.start() == self.config.start_of(number)).then_some(held)
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
        let slots: Vec<_> = ring.hold_all().collect();
        for wrap in slots.iter().flatten() {
            let in_window = covered.contains(&self.config.bucket_number(wrap.start()));
            let part = if in_window { &mut account.in_window } else { &mut account.expired };
            *part += &wrap.bucket().total();
        }
        stall::at(Point::SlotsHeld);
        let is_in_slot = |start| {
            let found = slots[self.config.slot(start)].as_ref();
            found.is_some_and(|wrap| wrap.start() == start)
        };
        account.expired += &self.retired_total(ring, is_in_slot);
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
mod stall_tests;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::event::MetricEvent;
    use crate::metric_bucket::MetricBucket;

    const PASS: MetricEvent = MetricEvent::Pass;

    /// A ring of so many buckets of a second.
    fn array(samples: u32) -> LeapArray<MetricBucket> {
        let interval = Duration::from_secs(samples.into());
        LeapArray::new(WindowConfig::new(samples as usize, interval).unwrap())
    }

    #[test]
    fn who_stalls_with_the_reset_lock_stops_nobody() {
        let array = array(2);
        array.current_bucket(Timestamp::MIN).add(PASS, 1);
        let _stalled = array.reset.try_lock().unwrap();
        let later = Timestamp::from_secs(2);
        array.current_bucket(later).add(PASS, 2);
        let account = array.account(later).map(|totals| totals.sum(PASS));
        assert_eq!((account.in_window, account.expired), (2, 1));
    }

    #[test]
    fn nothing_is_lost_when_all_rotate_without_the_lock() {
        const ROUNDS: u64 = 2_000;
        let array = array(4);
        let _stalled = array.reset.try_lock().unwrap();
        let seconds = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        // Everybody is at another slot, and now and then at the same.
                        let second = seconds.fetch_add(1, Ordering::Relaxed) / 2;
                        array.current_bucket(Timestamp::from_secs(second)).add(PASS, 1);
                    }
                });
            }
        });
        let account = array.account(Timestamp::MAX).map(|totals| totals.sum(PASS));
        assert_eq!(account.recorded(), 4 * ROUNDS, "{account}");
    }

    #[test]
    fn a_wrap_that_lost_the_race_for_its_slot_is_used_again() {
        let array = array(1);
        let record = |second| array.current_bucket(Timestamp::from_secs(second));
        drop(record(0));
        let ring = array.ring.get().unwrap();
        let observed = ring.hold(0).unwrap();
        let second = Timestamp::from_secs(2);
        let prepared = ring.make(second);
        drop(record(1));
        array.put(ring, Some(&observed), prepared, second, &mut None);
        drop(observed);
        // In the memory of bucket 0, of bucket 1, and of what was prepared.
        let _held = [3, 4, 5].map(record);
        assert_eq!(ring.len(), 3);
    }

    #[test]
    fn wraps_that_are_held_take_more_memory_until_they_are_let_go() {
        let array = array(2);
        let record = |second| {
            let current = array.current_bucket(Timestamp::from_secs(second));
            current.add(PASS, 1);
            current
        };
        let wraps = || array.ring.get().unwrap().len();
        let held: Vec<_> = (0..100).map(record).collect();
        assert_eq!(wraps(), 100);
        for (second, current) in (0..).zip(&held) {
            assert_eq!(current.in_time().unwrap().start(), Timestamp::from_secs(second));
            current.add(PASS, 1);
        }
        let recorded = || array.account(Timestamp::MAX).recorded().sum(PASS);
        assert_eq!(recorded(), 200);
        drop(held);
        (100..1_000).for_each(|second| drop(record(second)));
        assert_eq!((wraps(), recorded()), (100, 1_100));
        let sum = |now| array.fold(now, 0, |bucket| bucket.sum(PASS), |sum, found| sum + found);
        assert_eq!([999, 1_000].map(|second| sum(Timestamp::from_secs(second))), [2, 1]);
    }

    /// A count that cannot be emptied as often as asked.
    #[derive(Default)]
    struct Stubborn(AtomicU64, AtomicU64);

    impl Bucket for Stubborn {
        type Total = u64;

        fn total(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn reset(&self) {
            self.0.store(0, Ordering::Relaxed);
            // A new one is emptied as well.
            assert_ne!(self.1.fetch_add(1, Ordering::Relaxed), 1, "the second time");
        }
    }

    #[test]
    fn a_bucket_that_panics_in_the_middle_of_a_rotation_loses_nothing() {
        let array = LeapArray::<Stubborn>::new(*array(2).config());
        let add = |second| {
            let array = std::panic::AssertUnwindSafe(&array);
            let add = move || {
                array.current_bucket(Timestamp::from_secs(second)).0.fetch_add(1, Ordering::Relaxed)
            };
            u64::from(std::panic::catch_unwind(add).is_ok())
        };
        let added = (0..20).map(add).sum::<u64>();
        assert!((10..20).contains(&added), "{added} adds");
        // A wrap that was retired, and then could not be replaced, is still in use.
        assert_eq!(array.account(Timestamp::MAX).recorded(), added);
    }

    #[test]
    fn a_retired_wrap_is_settled_as_soon_as_nobody_holds_it() {
        let array = array(1);
        let open = || array.retired.load().get().map_or(0, Retired::open_len);
        let rotate = |seconds: std::ops::Range<u64>| {
            for second in seconds {
                array.current_bucket(Timestamp::from_secs(second)).add(PASS, 1);
            }
        };
        rotate(0..1_000);
        assert_eq!(open(), 1, "the last that was retired");
        let held = array.current_bucket(Timestamp::from_secs(999));
        rotate(1_000..2_000);
        assert_eq!(open(), 2, "that, and the one that is held");
        drop(held);
        rotate(2_000..2_001);
        assert_eq!(open(), 1);
        let recorded = array.account(Timestamp::MIN).recorded();
        assert_eq!(recorded.sum(PASS), 2_001);
    }
}
