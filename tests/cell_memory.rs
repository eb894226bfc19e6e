//! The number of cells of the process-wide slab that are in use.
//!
//! This is one test in a separate file because all windows of the process share the slab.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leaparray::flow::Reason;
use leaparray::node::{CellMemory, ResponseClass};
use leaparray::{
    ManualClock, MetricEvent, NodeConfig, ResourceNode, SlidingWindow, Timestamp, WindowConfig,
};

fn window() -> SlidingWindow<ManualClock> {
    let config = WindowConfig::new(2, Duration::from_secs(1)).unwrap();
    SlidingWindow::with_clock(config, ManualClock::new(Timestamp::from_secs(10)))
}

/// Another thread adopts them, while a third one has the cache of the thread that has ended.
fn a_thread_that_ends_gives_up_all_cells() {
    let windows: Vec<_> = (0..3_000).map(|_| window()).collect();
    let record_in_all = || windows.iter().for_each(|window| window.add(MetricEvent::Pass, 1));
    let own_cache = window();
    thread::scope(|scope| scope.spawn(record_in_all).join().unwrap());
    thread::scope(|scope| {
        let (is_cached, cached) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let own_cache = &own_cache;
        scope.spawn(move || {
            own_cache.add(MetricEvent::Pass, 1);
            is_cached.send(()).unwrap();
            let _ = ends.recv();
        });
        cached.recv().unwrap();
        scope.spawn(record_in_all).join().unwrap();
        drop(end);
    });
    assert_eq!(CellMemory::current().in_use, windows.len() + 1, "each cell was adopted");
}

#[test]
fn window_has_one_cell_for_each_thread_until_it_is_dropped() {
    let in_use = || CellMemory::current().in_use;
    let cache = {
        assert_eq!(CellMemory::current().cache_bytes, 0, "no thread has recorded");
        window().add(MetricEvent::Pass, 1);
        CellMemory::current().cache_bytes
    };
    assert!((72..74).contains(&(cache / 1_024)), "{cache} bytes");
    // More than the places of a thread cache, which are 1,024, and 4,096 and 16,384 further ones.
    let windows: Vec<_> = (0..30_000).map(|_| window()).collect();
    for round in 1..=3 {
        for window in &windows {
            window.add(MetricEvent::Pass, 1);
        }
        assert_eq!(in_use(), windows.len(), "round {round}: evicted cells were adopted again");
    }
    let further = CellMemory::current().cache_bytes - cache;
    assert!((1_440..1_448).contains(&(further / 1_024)), "{further} bytes");
    for round in 1..=3 {
        thread::scope(|scope| {
            let recorder = scope.spawn(|| {
                for window in &windows {
                    window.add(MetricEvent::Pass, 1);
                }
            });
            recorder.join().unwrap();
        });
        let bytes = CellMemory::current().cache_bytes;
        assert_eq!(bytes, 2 * (cache + further), "{round}: the last thread's cache was recycled");
        // The first thread keeps the cells in its cache; all others are adopted by the next thread.
        assert!(in_use() <= windows.len() + 21_504, "round {round}: {}", in_use());
    }
    drop(windows);
    assert_eq!(in_use(), 0);
    a_thread_that_ends_gives_up_all_cells();
    assert_eq!(in_use(), 0);
    // The places of dropped windows are used again: no cell of a new window is given up.
    let windows: Vec<_> = (0..3_000).map(|_| window()).collect();
    for window in &windows {
        window.add(MetricEvent::Pass, 1);
    }
    thread::scope(|scope| {
        scope.spawn(|| windows.iter().for_each(|window| window.add(MetricEvent::Pass, 1)));
    });
    assert_eq!(in_use(), 2 * windows.len(), "a cell for each thread");
    assert!(windows.iter().all(|window| window.now().sum(MetricEvent::Pass) == 2));
    drop(windows);
    assert_eq!(in_use(), 0);
    assert!(CellMemory::current().free >= 30_000);
    // A request that ends on another thread makes the slab allocate words for the chunk of its
    // cell.
    let before = CellMemory::current().bytes;
    let node = ResourceNode::new(NodeConfig::default());
    let end_elsewhere = || {
        let entry = node.enter();
        thread::scope(|scope| scope.spawn(|| entry.success()).join().unwrap());
        CellMemory::current().bytes - before
    };
    node.enter().success();
    assert_eq!(CellMemory::current().bytes, before, "a request that ends where it entered");
    let words = end_elsewhere();
    assert!(
        words > 0 && words.is_multiple_of(64) && words <= before / 2,
        "{words} of {before} bytes"
    );
    assert_eq!(end_elsewhere(), words, "the words are made once");
    // So a thread has the resources of as many routes in its cache as it has places.
    let with_requests = in_use();
    node.count_response(ResponseClass::ClientError);
    node.refuse(Reason::LimitReached);
    assert_eq!(in_use(), with_requests, "responses and refusals take no cell of their own");
}
