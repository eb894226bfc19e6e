//! The ring of atomically swapped wraps.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::TryLockError;

use crate::account::Account;
use crate::bucket::Bucket;
use crate::geometry::{WindowConfig, run};
use crate::retired::{Retired, Spare};
use crate::sync::{Arc, Held, Lazy, Mutex, Patience, Slot, unique};
use crate::timestamp::Timestamp;
use crate::wrap::{BucketWrap, CurrentBucket, WrapRef};

/// A ring of buckets over time, after Sentinel's `LeapArray`; lock-free, and exact at rollover.
///
/// The bucket number `k` of a time lives in slot `k mod N`. Where Sentinel resets a stale bucket
/// in place, this ring swaps a fresh [`BucketWrap`] in, whose start never changes: whoever still
/// holds the old one adds to what has left the window, and never to another bucket.
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
    slots: Lazy<Slots<B>>,
    retired: Slot<Retired<B>>,
    late: Lazy<B>,
    /// The reset try-lock, around what only its owner may use.
    reset: Mutex<Spare<B>>,
}

type Slots<B> = Box<[Slot<BucketWrap<B>>]>;

impl<B: Bucket> LeapArray<B> {
    /// An array in which nothing has been recorded. It takes memory when it is first used.
    #[must_use]
    pub fn new(config: WindowConfig) -> Self {
        Self {
            id: unique(),
            config,
            slots: Lazy::new(|| Self::empty_slots(config)),
            retired: Slot::empty(),
            late: Lazy::new(B::default),
            reset: Mutex::new(Spare::none()),
        }
    }

    fn empty_slots(config: WindowConfig) -> Slots<B> {
        (0..config.sample_count()).map(|_| Slot::empty()).collect()
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
        let slots = self.slots.get_or_make(|| Self::empty_slots(self.config));
        let slot = &slots[self.config.slot(now)];
        let mut patience = Patience::new();
        loop {
            let observed = slot.load();
            match observed.get().map(|wrap| wrap.start().cmp(&start)) {
                Some(Equal) => return CurrentBucket::InTime(WrapRef::new(observed)),
                Some(Greater) => return CurrentBucket::Late(self.late.get_or_make(B::default)),
                Some(Less) => self.reset(slot, &observed, start, &mut patience),
                // Who loses finds the winner's wrap at the next look.
                None => drop(slot.compare_and_swap(&observed, Arc::new(BucketWrap::empty(start)))),
            }
        }
    }

    /// Replaces the stale wrap that was `observed`, or leaves it to who is at it already.
    fn reset(
        &self,
        slot: &Slot<BucketWrap<B>>,
        observed: &Held<BucketWrap<B>>,
        start: Timestamp,
        patience: &mut Patience,
    ) {
        let mut lock = match self.reset.try_lock() {
            Ok(lock) => Some(lock),
            // Of a bucket that panicked when it was made. The spare memory is none the worse.
            Err(TryLockError::Poisoned(lock)) => Some(lock.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if lock.is_none() && patience.wait() {
            return;
        }
        // Whoever has the lock may have stalled: without it, and without its spare memory.
        let mut none = Spare::none();
        let spare = lock.as_deref_mut().unwrap_or(&mut none);
        // The lock only spares a herd its allocations. What keeps a second swap out is that each
        // is against the wrap that was observed.
        if slot.load().same(observed) {
            self.retire(observed, spare);
            // Who loses finds the winner's wrap at the next look.
            if let Err(unused) = slot.compare_and_swap(observed, spare.wrap(start)) {
                spare.keep_wrap(unused);
            }
        }
    }

    /// Adds `wrap` to the retired ones, unless another thread has.
    fn retire(&self, wrap: &Held<BucketWrap<B>>, spare: &mut Spare<B>) {
        let mut after = spare.retired();
        loop {
            let before = self.retired.load();
            let list = Arc::get_mut(&mut after).expect("a spare list is nobody else's");
            if !list.follow(before.get(), wrap) {
                return;
            }
            match self.retired.compare_and_swap(&before, after) {
                Ok(replaced) => {
                    drop(before);
                    return replaced.into_iter().for_each(|list| spare.keep_retired(list));
                }
                Err(unused) => after = unused,
            }
        }
    }

    /// The bucket before that of `now`, if it is there and the window covers it: with one bucket
    /// in the ring there is none.
    pub fn previous_bucket(&self, now: Timestamp) -> Option<WrapRef<B>> {
        let covered = self.config.covered(now);
        let previous = covered.end().checked_sub(1)?;
        if covered.contains(&previous) { self.wrap(previous) } else { None }
    }

    /// The buckets that the window covers at `now`, from the oldest to the newest, without those
    /// that nobody has recorded in.
    pub fn values(&self, now: Timestamp) -> impl Iterator<Item = WrapRef<B>> {
        self.wraps(self.config.covered(now))
    }

    /// Those of [`values`](Self::values) whose start `predicate` accepts.
    ///
    /// The predicate is asked before the bucket is looked up, once for each bucket of the window.
    pub fn values_conditional(
        &self,
        now: Timestamp,
        mut predicate: impl FnMut(Timestamp) -> bool,
    ) -> impl Iterator<Item = WrapRef<B>> {
        let covered = self.config.covered(now);
        covered
            .filter(move |&number| predicate(self.config.start_of(number)))
            .filter_map(|number| self.wrap(number))
    }

    /// Folds the last `len` buckets as of `now`, those that are there, from the oldest to the newest.
    #[inline]
    pub(crate) fn fold_last<T>(
        &self,
        now: Timestamp,
        len: usize,
        init: T,
        add: impl Fn(T, &B) -> T,
    ) -> T {
        let Some(slots) = self.slots.get() else { return init };
        let numbers = run(self.config.bucket_number(now), len as u64);
        // Counted on from the first: a division for each bucket would cost as much as its look.
        let mut slot = self.config.slot_of(*numbers.start());
        let mut start = self.config.start_of(*numbers.start()).as_nanos();
        let mut folded = init;
        for _ in numbers {
            let held = slots[slot].load();
            if let Some(wrap) = held.get().filter(|wrap| wrap.start().as_nanos() == start) {
                folded = add(folded, wrap.bucket());
            }
            // Wraps after the last bucket of all time, and is not used any more.
            start = start.wrapping_add(self.config.bucket_nanos());
            slot = if slot + 1 == slots.len() { 0 } else { slot + 1 };
        }
        folded
    }

    /// The wraps of the given bucket numbers that are there.
    pub(crate) fn wraps(&self, numbers: RangeInclusive<u64>) -> impl Iterator<Item = WrapRef<B>> {
        numbers.filter_map(|number| self.wrap(number))
    }

    fn wrap(&self, number: u64) -> Option<WrapRef<B>> {
        let held = self.slots.get()?[self.config.slot_of(number)].load();
        let is_it = held.get().is_some_and(|wrap| wrap.start() == self.config.start_of(number));
        is_it.then(|| WrapRef::new(held))
    }

    /// Where everything that was ever added is, as seen from `now`.
    ///
    /// One coherent look: each add is counted once. An add that returned before this began is
    /// counted; one that runs meanwhile may be. From look to look what was recorded only grows.
    ///
    /// Takes one look at each slot, whatever others do meanwhile, and allocates a list of them.
    pub fn account(&self, now: Timestamp) -> Account<B::Total> {
        self.account_over(&self.config.covered(now))
    }

    pub(crate) fn account_over(&self, covered: &RangeInclusive<u64>) -> Account<B::Total> {
        // The slots first, and all of them held. A wrap that was missed because it had left its
        // slot was retired before it left; one that is held here cannot be settled any more. So
        // each is found once here or in `retired`, and if in both, then by its start.
        let slots: Vec<_> = self.slots.get().into_iter().flatten().map(Slot::load).collect();
        let retired = self.retired.load();

        let late = self.late.get().map(B::total).unwrap_or_default();
        let mut account = Account { late, ..Account::default() };
        for wrap in slots.iter().filter_map(Held::get) {
            let in_window = covered.contains(&self.config.bucket_number(wrap.start()));
            let part = if in_window { &mut account.in_window } else { &mut account.expired };
            *part += &wrap.bucket().total();
        }
        if let Some(retired) = retired.get() {
            account.expired += retired.settled();
            for wrap in retired.open() {
                // The slots may have been made since.
                let slot = slots.get(self.config.slot(wrap.start())).and_then(Held::get);
                if slot.is_none_or(|current| current.start() != wrap.start()) {
                    account.expired += &wrap.bucket().total();
                }
            }
        }
        account
    }
}

impl<B: Bucket> fmt::Debug for LeapArray<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeapArray").field("config", &self.config).finish_non_exhaustive()
    }
}

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
    fn a_retired_wrap_is_settled_as_soon_as_nobody_holds_it() {
        let array = array(1);
        let open = || array.retired.load().get().map_or(0, |retired| retired.open().count());
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
