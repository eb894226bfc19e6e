use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::metric::{MetricBucket, MetricEvent};

const PASS: MetricEvent = MetricEvent::Pass;

/// Creates an array of `samples` buckets of one second.
fn array(samples: u32) -> LeapArray<MetricBucket> {
    let interval = Duration::from_secs(samples.into());
    LeapArray::new(WindowConfig::new(samples as usize, interval).unwrap())
}

#[test]
fn thread_that_stalls_with_the_rotation_lock_blocks_no_other() {
    let array = array(2);
    array.current_bucket(Timestamp::MIN).add(PASS, 1);
    let _stalled = array.rotation_lock.try_lock().unwrap();
    let later = Timestamp::from_secs(2);
    array.current_bucket(later).add(PASS, 2);
    let ledger = array.ledger(later).map(|totals| totals.sum(PASS));
    assert_eq!((ledger.in_window, ledger.expired), (2, 1));
}

#[test]
fn rotations_without_the_lock_lose_no_count() {
    const ROUNDS: u64 = 2_000;
    let array = array(4);
    let _stalled = array.rotation_lock.try_lock().unwrap();
    let seconds = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    // The threads are usually at different slots, and sometimes at the same slot.
                    let second = seconds.fetch_add(1, Ordering::Relaxed) / 2;
                    array.current_bucket(Timestamp::from_secs(second)).add(PASS, 1);
                }
            });
        }
    });
    let ledger = array.ledger(Timestamp::MAX).map(|totals| totals.sum(PASS));
    assert_eq!(ledger.recorded(), 4 * ROUNDS, "{ledger}");
}

#[test]
fn wrap_that_lost_the_race_for_its_slot_is_recycled() {
    let array = array(1);
    let record = |second| array.current_bucket(Timestamp::from_secs(second));
    drop(record(0));
    let ring = array.ring.get().unwrap();
    let observed = ring.pin(0).unwrap();
    let second = Timestamp::from_secs(2);
    let prepared = ring.make(second);
    drop(record(1));
    array.install(ring, Some(&observed), prepared, second, &mut None);
    drop(observed);
    // The wraps of buckets 0 and 1, and the prepared wrap.
    let _held = [3, 4, 5].map(record);
    assert_eq!(ring.len(), 3);
}

#[test]
fn pinned_wraps_take_more_memory_until_they_are_unpinned() {
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
    let recorded = || array.ledger(Timestamp::MAX).recorded().sum(PASS);
    assert_eq!(recorded(), 200);
    drop(held);
    (100..1_000).for_each(|second| drop(record(second)));
    assert_eq!((wraps(), recorded()), (100, 1_100));
    let sum = |now| array.fold(now, 0, |bucket| bucket.sum(PASS), |sum, found| sum + found);
    assert_eq!([999, 1_000].map(|second| sum(Timestamp::from_secs(second))), [2, 1]);
}

/// A count whose second reset panics.
#[derive(Default)]
struct PanicsOnReset(AtomicU64, AtomicU64);

impl Bucket for PanicsOnReset {
    type Total = u64;

    fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
        // A new bucket is reset as well, so the second reset is the first recycling.
        assert_ne!(self.1.fetch_add(1, Ordering::Relaxed), 1, "the second reset");
    }
}

#[test]
fn bucket_that_panics_during_a_rotation_loses_no_count() {
    let array = LeapArray::<PanicsOnReset>::new(*array(2).config());
    let add = |second| {
        let array = std::panic::AssertUnwindSafe(&array);
        let add = move || {
            array.current_bucket(Timestamp::from_secs(second)).0.fetch_add(1, Ordering::Relaxed)
        };
        u64::from(std::panic::catch_unwind(add).is_ok())
    };
    let added = (0..20).map(add).sum::<u64>();
    assert!((10..20).contains(&added), "{added} adds");
    // A wrap that was retired, and then not replaced, is still in use.
    assert_eq!(array.ledger(Timestamp::MAX).recorded(), added);
}

#[test]
fn retired_wrap_is_reclaimed_once_no_thread_has_it_pinned() {
    let array = array(1);
    let open = || array.retired.load().get().map_or(0, Retired::pending_len);
    let rotate = |seconds: std::ops::Range<u64>| {
        for second in seconds {
            array.current_bucket(Timestamp::from_secs(second)).add(PASS, 1);
        }
    };
    rotate(0..1_000);
    assert_eq!(open(), 1, "the wrap that was retired last");
    let held = array.current_bucket(Timestamp::from_secs(999));
    rotate(1_000..2_000);
    assert_eq!(open(), 2, "the wrap that was retired last, and the pinned wrap");
    drop(held);
    rotate(2_000..2_001);
    assert_eq!(open(), 1);
    let recorded = array.ledger(Timestamp::MIN).recorded();
    assert_eq!(recorded.sum(PASS), 2_001);
}

#[test]
fn bucket_that_left_its_slot_is_in_no_earlier_window() {
    let array = array(2);
    for second in [10, 12] {
        array.current_bucket(Timestamp::from_secs(second)).add(PASS, 1);
    }
    let sum = |second| {
        let now = Timestamp::from_secs(second);
        array.fold(now, 0, |bucket| bucket.sum(PASS), |sum, found| sum + found)
    };
    // The wrap of second 10 has not been recycled and keeps its start: only `live` tells that it
    // has left its slot.
    assert_eq!([10, 11, 12].map(sum), [0, 0, 1]);
    // `UNUSED`, the start of a wrap that is not in use, is in the first bucket of all time.
    assert_eq!([0, 1].map(sum), [0, 0]);
}
