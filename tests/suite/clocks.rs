//! The clocks, through the trait by which a window reads them.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use leaparray::time::CachedClock;
use leaparray::{Clock, ManualClock, MonotonicClock, Timestamp};

#[test]
fn precise_clock_keeps_up_with_the_operating_systems() {
    let clock = MonotonicClock::default();
    for pause in [Duration::from_micros(50), Duration::from_millis(20)] {
        let (before, from, start) = (Instant::now(), clock.now(), Instant::now());
        thread::sleep(pause);
        let (end, to, after) = (Instant::now(), clock.now(), Instant::now());
        let passed = to.saturating_since(from);
        // If a thread is preempted during a correction, the clock is behind until the next one,
        // by 0.3 ms at most.
        let tolerance = Duration::from_millis(1);
        assert!(passed + tolerance >= end - start, "{passed:?} in {:?}", end - start);
        assert!(passed <= after - before + tolerance, "{passed:?} in {:?}", after - before);
    }
}

#[test]
fn clock_by_reference_or_shared_is_that_clock() {
    fn reading(clock: impl Clock) -> Timestamp {
        clock.now()
    }
    let clock = ManualClock::new(Timestamp::from_secs(7));
    assert_eq!(reading(&clock), Timestamp::from_secs(7));
    assert_eq!(reading(Arc::new(clock)), Timestamp::from_secs(7));
}

#[test]
fn cached_clock_shows_its_source_as_of_the_last_refresh() {
    let source = ManualClock::new(Timestamp::from_secs(1));
    let clock = CachedClock::new(source.clone());
    source.set(Timestamp::from_secs(2));
    assert_eq!(clock.now(), Timestamp::from_secs(1));
    clock.refresh();
    assert_eq!(clock.now(), Timestamp::from_secs(2));
}

/// A clock whose readings take 20 ms.
struct Slow {
    _source: Arc<()>,
}

impl Clock for Slow {
    fn now(&self) -> Timestamp {
        thread::sleep(Duration::from_millis(20));
        Timestamp::MIN
    }
}

#[test]
fn dropped_cached_clock_has_dropped_its_source() {
    let source = Arc::new(());
    let clock = CachedClock::start(Slow { _source: source.clone() }, Duration::ZERO).unwrap();
    // By now, the thread of the clock is reading the source, as it is nearly all the time.
    thread::sleep(Duration::from_millis(10));
    drop(clock);
    assert_eq!(Arc::strong_count(&source), 1, "the thread still has the source");
}
