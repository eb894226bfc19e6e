//! The real slots and real threads at many rollovers: nothing is lost, and the books balance
//! while everybody is at work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leaparray::{
    Clock, LeapArray, ManualClock, MetricBucket, MetricEvent, MonotonicClock, SlidingWindow,
    Timestamp, WindowConfig,
};

const PASS: MetricEvent = MetricEvent::Pass;
const BUCKET: Duration = Duration::from_millis(1);

fn config(samples: u32) -> WindowConfig {
    WindowConfig::new(samples as usize, BUCKET * samples).unwrap()
}

#[test]
fn nothing_is_lost_while_threads_cross_rollovers() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 5_000;
    for samples in [1, 2, 5] {
        let clock = ManualClock::new(Timestamp::MIN);
        let window = SlidingWindow::with_clock(config(samples), clock.clone());
        let (added, done) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Acquire) {
                    let returned = added.load(Ordering::Acquire);
                    let recorded = window.account().recorded().sum(PASS);
                    assert!(recorded >= returned, "{returned} adds returned, {recorded} recorded");
                    assert!(recorded >= last, "what was recorded went from {last} to {recorded}");
                    last = recorded;
                }
            });
            let writers: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..ROUNDS {
                            // Everybody pushes the time on, so every few adds cross a rollover.
                            clock.advance(BUCKET / 4);
                            window.add(PASS, 1);
                            added.fetch_add(1, Ordering::Release);
                        }
                    })
                })
                .collect();
            for writer in writers {
                writer.join().unwrap();
            }
            done.store(true, Ordering::Release);
            reader.join().unwrap();
        });
        let account = window.account();
        assert_eq!(account.recorded().sum(PASS), THREADS * ROUNDS, "{samples} buckets");
        assert_eq!(account.in_window.sum(PASS), window.sum(PASS));
    }
}

#[test]
fn who_holds_a_wrap_for_laps_is_counted_as_expired() {
    let array = LeapArray::<MetricBucket>::new(config(2));
    let held = array.current_bucket(Timestamp::MIN);
    held.add(PASS, 1);
    for millis in 1..100 {
        array.current_bucket(Timestamp::from_millis(millis)).add(PASS, 10);
    }
    held.add(PASS, 100);
    let account = array.account(Timestamp::from_millis(99));
    assert_eq!(account.in_window.sum(PASS), 20);
    assert_eq!(account.expired.sum(PASS), 970 + 101);
    drop(held);
    array.current_bucket(Timestamp::from_millis(100)).add(PASS, 1_000);
    assert_eq!(array.account(Timestamp::MIN).recorded().sum(PASS), 2_091);
}

#[test]
fn the_precise_clock_never_goes_back_from_thread_to_thread() {
    let clock = MonotonicClock::new();
    let latest = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100_000 {
                    let seen = latest.load(Ordering::Acquire);
                    let now = clock.now().as_nanos();
                    // The counters of two cores may differ by a few cycles.
                    assert!(now + 1_000 >= seen, "went back from {seen} to {now}");
                    latest.fetch_max(now, Ordering::AcqRel);
                }
            });
        }
    });
}
