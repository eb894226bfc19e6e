//! The wraps in sight: a read that looks at no slot finds what one that does would have found.
#![cfg(loom)]

use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};
use leaparray_loom_tests::{LEN, explore, start};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

const PASS: MetricEvent = MetricEvent::Pass;

fn window(samples: u32) -> SlidingWindow<ManualClock> {
    let config = WindowConfig::new(samples as usize, LEN * samples).expect("not zero");
    SlidingWindow::with_clock(config, ManualClock::new(Timestamp::MIN))
}

/// What the window of bucket `number` sums to. A thread holds what it sees from its second read on.
fn sum(window: &SlidingWindow<ManualClock>, number: u32) -> u64 {
    window.sum_at(start(number), PASS)
}

#[test]
fn a_bucket_that_was_not_there_is_found_when_it_is() {
    explore(Some(3), || {
        let window = window(2);
        let returned = Arc::new(AtomicBool::new(false));
        let reader = {
            let (window, returned) = (window.clone(), returned.clone());
            thread::spawn(move || {
                let before = [sum(&window, 1), sum(&window, 1)];
                let after = returned.load(Ordering::Acquire);
                (before, after, sum(&window, 1))
            })
        };
        window.add_at(start(0), PASS, 1);
        window.add_at(start(1), PASS, 10);
        returned.store(true, Ordering::Release);
        let (before, after, last) = reader.join().unwrap();
        let sums = [before[0], before[1], last];
        // A read is one look at each bucket, not at both at once: the later add alone is in order.
        assert!(
            sums.is_sorted() && sums.iter().all(|sum| [0, 1, 10, 11].contains(sum)),
            "{sums:?}"
        );
        assert!(!after || last == 11, "both adds have returned: {sums:?}");
    });
}

#[test]
fn a_bucket_that_was_overtaken_is_in_sight_no_more() {
    explore(Some(3), || {
        let window = window(1);
        window.add_at(start(0), PASS, 1);
        let returned = Arc::new(AtomicBool::new(false));
        let reader = {
            let (window, returned) = (window.clone(), returned.clone());
            thread::spawn(move || {
                let before = [sum(&window, 0), sum(&window, 0)];
                let after = returned.load(Ordering::Acquire);
                (before, after, sum(&window, 0), sum(&window, 1))
            })
        };
        window.add_at(start(1), PASS, 10);
        returned.store(true, Ordering::Release);
        let (before, after, old, new) = reader.join().unwrap();
        assert!(before.iter().chain([&old]).all(|sum| *sum <= 1), "{before:?}, {old}");
        assert!(!after || (old, new) == (0, 10), "bucket 1 has taken the slot: {old}, {new}");
        assert!(new == 0 || new == 10, "and has what was added in it: {new}");
        let recorded = window.account_at(start(1)).recorded().sum(PASS);
        assert_eq!(recorded, 11, "whatever the reader holds");
    });
}
