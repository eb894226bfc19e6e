//! The number of cells of the process-wide slab that are in use.
//!
//! This is one test in a separate file because all windows of the process share the slab.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leaparray::flow::Reason;
use leaparray::node::{CellMemory, ResponseClass};
use leaparray::{
    HistogramConfig, ManualClock, MetricEvent, NodeConfig, ResourceNode, SlidingWindow, Timestamp,
    WindowConfig,
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

/// While a thread that has recorded in all of them owns its cells, so that nothing is to be
/// adopted, another one takes a cell of each window.
fn cells_of_two_threads(windows: &[SlidingWindow<ManualClock>], rounds: usize) -> usize {
    let record_in_all = || windows.iter().for_each(|window| window.add(MetricEvent::Pass, 1));
    (0..rounds).for_each(|_| record_in_all());
    let before = CellMemory::current().in_use;
    assert_eq!(before, windows.len(), "a cell for each window");
    thread::scope(|scope| scope.spawn(record_in_all).join().unwrap());
    CellMemory::current().in_use
}

/// It uses them in turn, twice. If it gave a cell up, the other thread would adopt it.
fn a_thread_keeps_the_cells_of_all_windows(first: usize) {
    // Of two ways, of which a quarter to all are taken.
    const SET: usize = 128 + 16;
    let mut cache = first;
    for len in [2_048, 10_000, 100_000] {
        let windows: Vec<_> = (0..len).map(|_| window()).collect();
        assert_eq!(cells_of_two_threads(&windows, 2), 2 * len, "{len} windows");
        assert!(windows.iter().all(|window| window.now().sum(MetricEvent::Pass) == 3));
        // Two caches: of this thread, and of the other one.
        let bytes = CellMemory::current().cache_bytes;
        let expected = len * SET..2 * (first + 2 * len * SET);
        assert!(expected.contains(&bytes) && bytes > cache, "{bytes} bytes for {len} windows");
        cache = bytes;
        drop(windows);
        assert_eq!(CellMemory::current().in_use, 0);
    }
}

/// As it records in more windows with histograms than it may keep, it gives up one cell with each,
/// and loses no count.
fn a_thread_with_more_recorders_than_it_may_keep_gives_some_up() {
    const KEPT: usize = 16_384;
    let config = WindowConfig::new(2, Duration::from_secs(1)).unwrap();
    let clock = ManualClock::new(Timestamp::from_secs(10));
    let window =
        |_| SlidingWindow::with_histogram(config, HistogramConfig::default(), clock.clone());
    let windows: Vec<_> = (0..KEPT + 1_000).map(window).collect();
    let cells = cells_of_two_threads(&windows, 2);
    assert_eq!(cells, windows.len() + KEPT, "the other thread adopts what this one gave up");
    assert!(windows.iter().all(|window| window.now().sum(MetricEvent::Pass) == 3));
    drop(windows);
    assert_eq!(CellMemory::current().in_use, 0);
}

/// The entries of dropped windows are removed before the cache grows.
fn a_thread_that_makes_and_drops_windows_keeps_its_cache() {
    for _ in 0..300 {
        let windows: Vec<_> = (0..1_000).map(|_| window()).collect();
        for window in &windows {
            window.add(MetricEvent::Pass, 1);
        }
    }
    assert_eq!(CellMemory::current().in_use, 0);
}

#[test]
fn window_has_one_cell_for_each_thread_until_it_is_dropped() {
    let in_use = || CellMemory::current().in_use;
    let cache = {
        assert_eq!(CellMemory::current().cache_bytes, 0, "no thread has recorded");
        window().add(MetricEvent::Pass, 1);
        CellMemory::current().cache_bytes
    };
    assert!((76..78).contains(&(cache / 1_024)), "{cache} bytes");
    a_thread_keeps_the_cells_of_all_windows(cache);
    a_thread_with_more_recorders_than_it_may_keep_gives_some_up();
    let cache = CellMemory::current().cache_bytes;
    a_thread_that_makes_and_drops_windows_keeps_its_cache();
    assert_eq!(CellMemory::current().cache_bytes, cache);
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
