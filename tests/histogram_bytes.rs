//! The memory of the histogram of a node, with the default windows of a second and a minute.
//!
//! The chunks of the slab of cells and the threads' caches are left out, since all windows share
//! them. The cells that the node has in use, and the recorders of all threads, are counted.
//!
//! This is a separate file because the profiler counts the allocations of the whole process.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leaparray::node::CellMemory;
use leaparray::{
    Clock, HistogramConfig, ManualClock, NodeConfig, Outcome, ResourceNode, Timestamp,
};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const KIB: usize = 1_024;
const CELL: usize = 128;
const BUCKET: Duration = Duration::from_millis(500);
const BUCKETS: u64 = 120;

/// The bytes that are allocated, without those that all windows share, but with the cells and the
/// recorders in use. A recorder counts as the mean of all recorders.
fn bytes() -> usize {
    let memory = CellMemory::current();
    let CellMemory { recorders_in_use, recorders_free, recorder_bytes, .. } = memory;
    let shared = memory.bytes + memory.cache_bytes + recorder_bytes;
    let recorder = recorder_bytes / (recorders_in_use + recorders_free).max(1);
    let in_use = memory.in_use * CELL + recorders_in_use * recorder;
    dhat::HeapStats::get().curr_bytes + in_use - shared
}

fn config(histogram: bool) -> NodeConfig {
    let config = NodeConfig::default();
    if histogram { config.with_histogram(HistogramConfig::default()) } else { config }
}

fn node(config: NodeConfig) -> ResourceNode<ManualClock> {
    // Late enough that requests can have begun two hundred years ago.
    ResourceNode::with_clock(config, ManualClock::new(Timestamp::from_nanos(3 << 61)))
}

/// Records the share of one thread in 1,000 requests of a bucket, whose response times are spread
/// evenly in the logarithm over three decades, from 100 µs.
fn bucket_of_requests(node: &ResourceNode<ManualClock>, thread: usize, threads: usize) {
    let end = node.clock().now();
    for rank in (thread..1_000).step_by(threads) {
        #[expect(clippy::cast_precision_loss, reason = "below 1,000")]
        let rt = Duration::from_secs_f64(1e-4 * 1_000_f64.powf(rank as f64 / 1_000.0));
        node.enter_at(end.saturating_sub(rt)).end_at(end, Outcome::Success);
    }
}

/// Records a minute of 2,000 requests a second on that many threads, which have ended on return.
fn minute(node: &ResourceNode<ManualClock>, threads: usize) {
    let turn = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let recorders: Vec<_> = (0..threads)
            .map(|thread| {
                let turn = &turn;
                scope.spawn(move || {
                    for _ in 0..BUCKETS {
                        turn.wait();
                        bucket_of_requests(node, thread, threads);
                        turn.wait();
                    }
                })
            })
            .collect();
        for _ in 0..BUCKETS {
            node.clock().advance(BUCKET);
            turn.wait();
            turn.wait();
        }
        // Unlike the end of the scope, this waits until their thread-locals have been dropped.
        for recorder in recorders {
            recorder.join().unwrap();
        }
    });
}

/// Records in further buckets, until the cells of all threads that have ended are retired: four in
/// each bucket.
fn retire_all(node: &ResourceNode<ManualClock>) {
    for _ in 0..40 {
        node.clock().advance(BUCKET);
        bucket_of_requests(node, 0, 1);
    }
}

#[test]
fn histogram_stays_within_its_budget() {
    let _profiler = dhat::Profiler::builder().testing().build();
    // Some memory is allocated once for all windows.
    let other = node(config(true));
    minute(&other, 2);
    drop(other);

    let never = [false, true].map(|histogram| {
        let before = bytes();
        let node = node(config(histogram));
        bytes() - before + size_of_val(&node)
    });
    println!("never used, without and with a histogram: {never:?}");
    assert!(never[1] <= never[0] + 200, "{never:?}");

    for threads in [1, 64] {
        let before = bytes();
        let node = node(config(true));
        minute(&node, threads);
        let ended = bytes() - before;
        retire_all(&node);
        let sealed = bytes() - before;
        println!(
            "{threads} threads: {ended} bytes when they end, {sealed} once their cells are sealed"
        );
        assert_eq!(CellMemory::current().recorders_in_use, 1, "those of ended threads are free");
        assert!(sealed <= 64 * KIB, "{threads} threads: {sealed} bytes");
        let max = HistogramConfig::default().max_bytes(node.config().long(), threads);
        assert!(ended <= max, "{ended} bytes, at most {max}");
    }

    // A response time in each bin of each bucket.
    let before = bytes();
    let node = node(config(true));
    for _ in 0..BUCKETS {
        node.clock().advance(BUCKET);
        for sixteenths in 0..62 * 16 {
            let nanos = 2_f64.powf(f64::from(sixteenths) / 16.0).ceil();
            let (end, rt) = (node.clock().now(), Duration::from_secs_f64(nanos / 1e9));
            node.enter_at(end.saturating_sub(rt)).end_at(end, Outcome::Success);
        }
    }
    let widest = bytes() - before;
    let max = HistogramConfig::default().max_bytes(node.config().long(), 1);
    println!("each bin in each bucket: {widest} bytes; the most that a histogram can take: {max}");
    assert!(widest <= max, "{widest} bytes, at most {max}");
}
