//! What a window of a minute takes: 120 buckets of half a second, of which a view of a second costs
//! nothing.
//!
//! A file of its own: the profiler counts what the whole process allocates.

use std::thread;
use std::time::Duration;

use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const BUCKET: Duration = Duration::from_millis(500);

fn bytes() -> usize {
    dhat::HeapStats::get().curr_bytes
}

fn minute() -> SlidingWindow<ManualClock> {
    let config = WindowConfig::new(120, BUCKET * 120).unwrap();
    SlidingWindow::with_clock(config, ManualClock::new(Timestamp::MIN))
}

fn record(window: &SlidingWindow<ManualClock>) {
    window.add(MetricEvent::Pass, 1);
    window.record_success(Duration::from_millis(1));
}

/// A second thread in every bucket.
fn on_another_thread(window: &SlidingWindow<ManualClock>) {
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            for number in 0..120 {
                let then = Timestamp::MIN.saturating_add(BUCKET * number);
                window.add_at(then, MetricEvent::Pass, 1);
            }
        });
        // Unlike the end of the scope, this waits until its thread locals are gone.
        other.join().unwrap();
    });
}

#[test]
fn a_window_of_a_minute_stays_within_its_budget() {
    let _profiler = dhat::Profiler::builder().testing().build();
    // What a thread takes once, for all windows.
    let other = minute();
    record(&other);
    on_another_thread(&other);
    drop(other);

    let before = bytes();
    let window = minute();
    let never = bytes() - before + size_of_val(&window);
    record(&window);
    let once = bytes() - before + size_of_val(&window);
    for _ in 1..120 {
        window.clock().advance(BUCKET);
        record(&window);
    }
    let minute_long = bytes() - before + size_of_val(&window);
    on_another_thread(&window);
    let two_threads = bytes() - before + size_of_val(&window);
    // Each has the token of the one before, and so its cells.
    for _ in 0..5 {
        on_another_thread(&window);
    }
    let come_and_go = bytes() - before + size_of_val(&window);

    println!("never {never}, once {once}, a minute {minute_long}, on two threads {two_threads}");
    assert_eq!(window.sum(MetricEvent::Pass), 840);
    assert!(never <= 512, "never used: {never} bytes");
    assert!(once <= 1_400, "used once: {once} bytes");
    assert!(minute_long <= 18_000, "used for a minute: {minute_long} bytes");
    assert!(two_threads <= 36_000, "used for a minute by two threads: {two_threads} bytes");
    assert_eq!(come_and_go, two_threads, "used by more threads, one after the other");
}
