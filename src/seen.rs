//! The wraps in sight: what a thread read last, so that it need not look for them again.

use std::cell::{Cell, OnceCell};

use crate::leap_array::LeapArray;
use crate::metric_bucket::MetricBucket;
use crate::sync::{Arc, thread_local};
use crate::timestamp::Timestamp;
use crate::wrap::BucketWrap;

thread_local! {
    static SIGHTS: Sights = const { Sights::new() };
}

/// Folds the last `len` buckets as of `now`, those that are there, in no order.
///
/// A wrap that was seen is the wrap of its bucket for good, and while none is retired it is in its
/// slot: no slot is read for it. A bucket that was *not there* is looked up each time, since
/// somebody who stalled inside it can still make it.
#[inline]
pub(crate) fn fold<T: Copy>(
    array: &LeapArray<MetricBucket>,
    now: Timestamp,
    len: usize,
    init: T,
    add: impl Fn(T, &MetricBucket) -> T,
) -> T {
    let folded = SIGHTS.try_with(|sights| {
        let place = sights.place_of(array.id());
        // Taken out meanwhile, which spares a borrow flag.
        let mut sight = place.take_sight_of(array)?;
        let folded = sight.fold(array, now, len, init, &add);
        place.sight.set(Some(sight));
        Some(folded)
    });
    folded.ok().flatten().unwrap_or_else(|| without_sight(array, now, len, init, add))
}

#[cold]
#[inline(never)]
fn without_sight<T>(
    array: &LeapArray<MetricBucket>,
    now: Timestamp,
    len: usize,
    init: T,
    add: impl Fn(T, &MetricBucket) -> T,
) -> T {
    array.last(now, len).fold(init, |folded, wrap| add(folded, wrap.bucket()))
}

/// What one thread has seen of one array.
struct Sight {
    /// The bucket of the last read: start and slot.
    newest: (u64, usize),
    /// By slot, those that were there when they were looked for.
    wraps: Box<[Option<Seen>]>,
}

/// A wrap and when it was seen in its slot.
struct Seen {
    start: u64,
    /// How many wraps of the array had been retired by then.
    retirements: u64,
    wrap: Arc<BucketWrap<MetricBucket>>,
}

impl Sight {
    /// Of an array with more buckets than that, a thread holds none.
    const MAX_SAMPLES: usize = 4_096;

    #[cold]
    fn of(array: &LeapArray<MetricBucket>) -> Option<Box<Self>> {
        let samples = array.config().sample_count();
        (samples <= Self::MAX_SAMPLES)
            .then(|| Box::new(Self { newest: (0, 0), wraps: (0..samples).map(|_| None).collect() }))
    }

    #[inline]
    fn fold<T>(
        &mut self,
        array: &LeapArray<MetricBucket>,
        now: Timestamp,
        len: usize,
        init: T,
        add: impl Fn(T, &MetricBucket) -> T,
    ) -> T {
        let (bucket_nanos, retirements) = (array.config().bucket_nanos(), array.retirements());
        // Divisions only when the time has left the bucket.
        if now.as_nanos().wrapping_sub(self.newest.0) >= bucket_nanos {
            let start = array.config().bucket_start(now);
            self.newest = (start.as_nanos(), array.config().slot(start));
        }
        let ((mut start, mut slot), mut folded) = (self.newest, init);
        for _ in 0..len {
            let seen = &mut self.wraps[slot];
            if !seen.as_ref().is_some_and(|it| it.start == start && it.retirements == retirements) {
                *seen = Seen::in_its_slot(array, slot, start, retirements);
            }
            if let Some(seen) = seen {
                folded = add(folded, seen.wrap.bucket());
            }
            let Some(before) = start.checked_sub(bucket_nanos) else { break };
            start = before;
            slot = slot.checked_sub(1).unwrap_or(self.wraps.len() - 1);
        }
        folded
    }
}

impl Seen {
    #[cold]
    fn in_its_slot(
        array: &LeapArray<MetricBucket>,
        slot: usize,
        start: u64,
        retirements: u64,
    ) -> Option<Self> {
        let wrap = array.wrap_at(slot, Timestamp::from_nanos(start))?.to_arc();
        Some(Self { start, retirements, wrap })
    }
}

/// Where the sight of some arrays would be.
struct Place {
    /// The number of the array that was read last.
    array: Cell<u64>,
    sight: Cell<Option<Box<Sight>>>,
}

impl Place {
    const fn new() -> Self {
        Self { array: Cell::new(u64::MAX), sight: Cell::new(None) }
    }

    /// The sight of that array, if it was read here before and no other one since: who goes through
    /// many arrays in turn holds nothing of any.
    #[inline]
    fn take_sight_of(&self, array: &LeapArray<MetricBucket>) -> Option<Box<Sight>> {
        if self.array.replace(array.id()) != array.id() {
            self.sight.set(None);
            return None;
        }
        self.sight.take().or_else(|| Sight::of(array))
    }
}

/// The sights of one thread: a table by the array's number, in which each array has one place.
struct Sights(OnceCell<Box<[Place; SIGHTS_LEN]>>);

/// 16 KiB a thread, made when it first reads.
const SIGHTS_LEN: usize = 1_024;

impl Sights {
    const fn new() -> Self {
        Self(OnceCell::new())
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below the length")]
    fn place_of(&self, array: u64) -> &Place {
        let table = self.0.get_or_init(|| Box::new([const { Place::new() }; SIGHTS_LEN]));
        &table[(array % SIGHTS_LEN as u64) as usize]
    }
}
