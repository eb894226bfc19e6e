//! The memory of a window of a minute, with 120 buckets of half a second, and of a node with such a
//! window.
//!
//! The chunks of the process-wide slab of cells and the threads' caches are left out, since all
//! windows share them; the cells that the window has in use are counted instead.
//!
//! This is a separate file because the profiler counts the allocations of the whole process.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leaparray::node::CellMemory;
use leaparray::{
    ManualClock, MetricEvent, NodeConfig, ResourceNode, SlidingWindow, Timestamp, WindowConfig,
};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const BUCKET: Duration = Duration::from_millis(500);
const BUCKETS: u32 = 120;
const KIB: usize = 1_024;
const CELL: usize = 128;

/// The bytes that are allocated outside of the slab and the thread caches, and the number of cells
/// in use.
#[derive(Clone, Copy)]
struct Memory {
    bytes: usize,
    cells: usize,
}

impl Memory {
    fn now() -> Self {
        let cells = CellMemory::current();
        let shared = cells.bytes + cells.cache_bytes;
        Self { bytes: dhat::HeapStats::get().curr_bytes - shared, cells: cells.in_use }
    }

    /// The difference: the bytes, including those of the cells in use, and the number of these
    /// cells.
    fn since(self, before: Self) -> Self {
        let cells = self.cells - before.cells;
        Self { bytes: self.bytes - before.bytes + cells * CELL, cells }
    }
}

/// A window of a minute, or a node with such a window.
trait Subject: Sync {
    const NAME: &str;

    fn new() -> Self;
    fn clock(&self) -> &ManualClock;
    /// Records a request that succeeds.
    fn record(&self);
    fn passes(&self) -> u64;
}

impl Subject for SlidingWindow<ManualClock> {
    const NAME: &str = "window";

    fn new() -> Self {
        let config = WindowConfig::new(BUCKETS as usize, BUCKET * BUCKETS).unwrap();
        Self::with_clock(config, ManualClock::new(Timestamp::MIN))
    }

    fn clock(&self) -> &ManualClock {
        self.clock()
    }

    fn record(&self) {
        self.add(MetricEvent::Pass, 1);
        self.record_success(Duration::from_millis(1));
    }

    fn passes(&self) -> u64 {
        self.now().sum(MetricEvent::Pass)
    }
}

impl Subject for ResourceNode<ManualClock> {
    const NAME: &str = "node";

    fn new() -> Self {
        Self::with_clock(NodeConfig::default(), ManualClock::new(Timestamp::MIN))
    }

    fn clock(&self) -> &ManualClock {
        self.clock()
    }

    fn record(&self) {
        self.enter().success();
    }

    fn passes(&self) -> u64 {
        self.now().long().sum(MetricEvent::Pass)
    }
}

/// Records in each new bucket of a minute, on `threads` threads at once. Returns the memory at the
/// end, while the threads still run, without the memory of the threads themselves.
fn minute_on_threads<S: Subject>(subject: &S, threads: u32) -> Memory {
    let (start, turn) = (Memory::now(), Barrier::new(threads as usize + 1));
    thread::scope(|scope| {
        let recorders: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    // The first wait ends once all threads run.
                    turn.wait();
                    for _ in 0..BUCKETS {
                        turn.wait();
                        subject.record();
                        turn.wait();
                    }
                    turn.wait();
                })
            })
            .collect();
        turn.wait();
        let of_threads = Memory::now().bytes - start.bytes;
        for _ in 0..BUCKETS {
            subject.clock().advance(BUCKET);
            turn.wait();
            turn.wait();
        }
        let Memory { bytes, cells } = Memory::now();
        turn.wait();
        // Unlike the end of the scope, this waits until their thread-locals have been dropped.
        for recorder in recorders {
            recorder.join().unwrap();
        }
        Memory { bytes: bytes - of_threads, cells }
    })
}

/// Records in each new bucket of a minute, on this thread.
fn minute_here(subject: &impl Subject) -> Memory {
    for _ in 0..BUCKETS {
        subject.clock().advance(BUCKET);
        subject.record();
    }
    Memory::now()
}

fn subject_stays_within_its_budget<S: Subject>() {
    // Some memory is allocated once for all windows.
    let other = S::new();
    minute_here(&other);
    minute_on_threads(&other, 2);
    drop(other);

    let before = Memory::now();
    let subject = S::new();
    let taken = |memory: Memory| {
        let Memory { bytes, cells } = memory.since(before);
        (bytes + size_of_val(&subject), cells)
    };
    let never = taken(Memory::now());
    subject.record();
    let once = taken(Memory::now());
    let minute = taken(minute_here(&subject));
    let two = taken(minute_on_threads(&subject, 1));
    for _ in 0..5 {
        minute_on_threads(&subject, 1);
    }
    let come_and_go = taken(Memory::now());
    assert_eq!(subject.passes(), u64::from(BUCKETS));
    let many = taken(minute_on_threads(&subject, 64));
    assert_eq!(subject.passes(), u64::from(64 * BUCKETS));
    let ended = taken(minute_here(&subject));
    assert_eq!(subject.passes(), u64::from(BUCKETS));
    minute_on_threads(&subject, 64);
    let again = taken(minute_here(&subject));

    let name = S::NAME;
    println!(
        "{name}: (bytes, cells): never used {never:?}, once {once:?}, for a minute {minute:?}, on a \
         second thread {two:?}, on others in turn {come_and_go:?}, on 64 threads {many:?}, after \
         these have ended {ended:?}, after 64 more {again:?}"
    );
    assert_eq!(never.1, 0, "a {name} that was never used has no cell");
    assert!(never.0 <= 512, "a {name} that was never used: {never:?}");
    assert!(once.0 <= 960, "a {name} that was used once: {once:?}");
    assert!(minute.0 <= 15_600, "a {name} that was used for a minute: {minute:?}");
    assert!(two.0 <= 16_100, "a {name} that was used for a minute by two threads: {two:?}");
    assert_eq!(come_and_go, two, "the cell of an ended thread is adopted by the next one");
    // The budget has 160 bytes for each thread, of which 128 are its cell.
    assert_eq!(many.1, 65, "each thread has one cell");
    let budget = 24 * KIB + 160 * many.1;
    assert!(many.0 <= budget, "a {name} on 64 threads: {many:?}");
    // The memory does not shrink: the window keeps the cells, and a row and a descriptor for each
    // thread that has published at the same time as another one.
    assert!(ended.0 <= budget, "a {name} whose threads have ended: {ended:?}");
    assert_eq!(again.1, ended.1, "64 further threads take no further cells");
    assert!(again.0 <= budget, "a {name} whose threads have ended again: {again:?}");
}

#[test]
fn minute_stays_within_its_budget_on_any_number_of_threads() {
    let _profiler = dhat::Profiler::builder().testing().build();
    subject_stays_within_its_budget::<SlidingWindow<ManualClock>>();
    subject_stays_within_its_budget::<ResourceNode<ManualClock>>();
}
