//! The bytes of a node of this crate after a minute of requests.

use std::mem;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leaparray::{ManualClock, MetricEvent, NodeConfig, Outcome, ResourceNode, Timestamp};
use leaparray_perf_page::grouped;

use crate::bytes::heap;
use crate::histograms::input;
use crate::histograms::peers::{BUCKETS, bucket_start, config_of};

/// How a node was used before its bytes are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    kind: Kind,
    /// The requests per second of the minute.
    pub(super) per_second: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    NeverUsed,
    UsedOnce,
    /// The minute on one thread.
    Minute,
    /// The minute, and another one without requests.
    Idle,
    /// The minute on [`THREADS`] threads, which end, and the first buckets of another minute on one
    /// thread.
    Ended,
}

pub(super) const COLUMNS: [Column; 9] = [
    Column { kind: Kind::NeverUsed, per_second: 0 },
    Column { kind: Kind::UsedOnce, per_second: 0 },
    Column { kind: Kind::Idle, per_second: 2_000 },
    Column { kind: Kind::Minute, per_second: 10 },
    Column { kind: Kind::Minute, per_second: 2_000 },
    Column { kind: Kind::Minute, per_second: 200_000 },
    Column { kind: Kind::Ended, per_second: 10 },
    Column { kind: Kind::Ended, per_second: 2_000 },
    Column { kind: Kind::Ended, per_second: 200_000 },
];

/// The threads that use a node and end.
const THREADS: usize = 64;
/// The buckets in which one thread records after them. In each of them, it seals up to four cells
/// of threads that have ended.
const SEALING: u64 = 20;

type Node = ResourceNode<ManualClock>;

/// Counts the bytes of a node with that scale in each of the [`COLUMNS`], with one recorder of
/// response times if a thread records in it.
///
/// Recorders belong to a slab of the process, like cells, and are used again. If the threads of a
/// node have ended, it has the recorder of the calling thread, whose bytes are the difference of
/// two nodes with this thread.
pub(super) fn count(scale: u8) -> [usize; COLUMNS.len()] {
    let mut recorder = 0;
    COLUMNS.map(|column| {
        if column.ended() > 0 {
            return column.without_recorders(scale) + recorder;
        }
        let bytes = column.fresh(scale);
        if column.kind == Kind::Minute {
            recorder = bytes - column.without_recorders(scale);
        }
        bytes
    })
}

impl Column {
    pub(super) fn name(self) -> String {
        let rate = grouped(self.per_second as f64);
        match self.kind {
            Kind::NeverUsed => "never used".to_owned(),
            Kind::UsedOnce => "one request".to_owned(),
            Kind::Minute => format!("{rate}/s"),
            Kind::Idle => format!("{rate}/s, then idle"),
            Kind::Ended => format!("{rate}/s, {THREADS} threads"),
        }
    }

    /// Returns whether no thread has used the node.
    pub(super) fn is_unused(self) -> bool {
        self.kind == Kind::NeverUsed
    }

    /// Returns the number of threads that have ended.
    pub(super) fn ended(self) -> usize {
        if self.kind == Kind::Ended { THREADS } else { 0 }
    }

    /// Counts the bytes of a node whose threads use recorders that were never used before.
    fn fresh(self, scale: u8) -> usize {
        // The first node also allocates what a thread takes once for all nodes, and chunks of the
        // slabs.
        let bytes = [(); 2].map(|()| {
            let (bytes, node) = self.count(scale);
            // Keeps the recorder of the node from being used again.
            mem::forget(node);
            bytes
        });
        bytes[1]
    }

    /// Counts the bytes of a node without recorders: the recorders of its threads have all their
    /// blocks already.
    fn without_recorders(self, scale: u8) -> usize {
        drop(Self { per_second: 200_000, ..self }.count(scale));
        self.count(scale).0
    }

    /// Makes and uses a node, and counts the bytes that are allocated.
    fn count(self, scale: u8) -> (usize, Node) {
        let before = heap();
        let config = NodeConfig::default();
        let config = config_of(scale).map_or(config, |histogram| config.with_histogram(histogram));
        let node = Node::with_clock(config, ManualClock::new(bucket_start(0)));
        let minute = 0..u64::from(BUCKETS);
        match self.kind {
            Kind::NeverUsed => {}
            Kind::UsedOnce => request(&node, bucket_start(0), Duration::from_millis(1)),
            Kind::Minute => minute.for_each(|bucket| self.record(&node, bucket, 0, 1)),
            Kind::Idle => {
                minute.for_each(|bucket| self.record(&node, bucket, 0, 1));
                node.clock().set(bucket_start(2 * u64::from(BUCKETS)));
                assert_eq!(node.now().long().sum(MetricEvent::Success), 0, "the minute is over");
            }
            Kind::Ended => {
                self.record_on_threads(&node);
                let end = u64::from(BUCKETS);
                (end..end + SEALING).for_each(|bucket| self.record(&node, bucket, 0, 1));
            }
        }
        (heap() - before + size_of_val(&node), node)
    }

    /// Records the share of one of several threads in a bucket.
    fn record(self, node: &Node, bucket: u64, thread: usize, threads: usize) {
        let rt = input::spread();
        let (start, per_bucket) = (bucket_start(bucket), self.per_second / 2);
        node.clock().set(start);
        for number in (thread..per_bucket).step_by(threads) {
            let rt = rt(bucket * per_bucket as u64 + number as u64);
            request(node, start, Duration::new(0, rt));
        }
    }

    /// Records the minute on all threads, in each bucket at the same time, and waits until they
    /// have ended.
    fn record_on_threads(self, node: &Node) {
        let turn = &Barrier::new(THREADS);
        thread::scope(|scope| {
            let run = |thread| {
                move || {
                    for bucket in 0..u64::from(BUCKETS) {
                        turn.wait();
                        self.record(node, bucket, thread, THREADS);
                    }
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(run(thread))).collect();
            // Unlike the end of the scope, a join waits until the thread's locals are dropped.
            for thread in threads {
                thread.join().expect("no panic");
            }
        });
    }
}

/// Records a request that ends in the bucket in which it starts.
fn request(node: &Node, start: Timestamp, rt: Duration) {
    node.enter_at(start).end_at(start.saturating_add(rt), Outcome::Success);
}
