//! What one resource takes on the heap. A program of its own, since the allocator that counts is slower.

use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leaparray::MetricEvent::Pass;
use leaparray::{CellMemory, ManualClock, NodeConfig, ResourceNode, SlidingWindow, Timestamp};
use sentinel_core::base::{MetricEvent, ResourceType, WriteStat};
use sentinel_core::stat::get_or_create_resource_node;

use crate::scenarios::{BUCKET_LEN, config};
use crate::standins::locked::{MutexRing, RwLockRing};
use crate::standins::striped::StripedRing;
use crate::standins::{MINUTE, Ring};

/// When the bytes are counted.
pub(crate) const STAGES: [&str; 4] =
    ["never used", "used once", "a minute, one thread", "a minute, two threads"];

/// Bytes at each of the stages, those of the value itself included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) name: String,
    pub(crate) stages: [usize; 4],
}

/// What a node takes that many threads use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeBytes {
    pub(crate) threads: usize,
    /// After a minute in each of whose buckets all of them recorded: bytes, and cells in use.
    pub(crate) recording: (usize, usize),
    /// After they have ended, and one thread has recorded for another minute.
    pub(crate) ended: (usize, usize),
}

/// All that the other program counts.
pub(crate) struct Counted {
    pub(crate) resources: Vec<Bytes>,
    pub(crate) nodes: Vec<NodeBytes>,
}

/// On how many threads a node is used.
const NODE_THREADS: [usize; 3] = [1, 8, 64];
const BUCKETS: u32 = 120;
const CELL: usize = 128;

/// The first of them.
pub(crate) const OURS: &str = "leaparray, 120 × 500 ms (second and minute)";

/// Prints what the other program reads. The global allocator must be `dhat`'s.
pub fn print() {
    let _profiler = dhat::Profiler::builder().testing().build();
    for bytes in [
        ours(),
        ring("mutex ring, 120 × 500 ms", || MutexRing::new(MINUTE)),
        ring("RwLock ring, 120 × 500 ms", || RwLockRing::new(MINUTE)),
        ring("striped ring, 120 × 500 ms", || StripedRing::new(MINUTE)),
        sentinel(),
    ] {
        let [never, once, minute, two] = bytes.stages;
        println!("{never}\t{once}\t{minute}\t{two}\t{}", bytes.name);
    }
    // What a thread takes once for all nodes.
    node(2);
    for NodeBytes { threads, recording, ended } in NODE_THREADS.map(node) {
        println!("node\t{threads}\t{}\t{}\t{}\t{}", recording.0, recording.1, ended.0, ended.1);
    }
}

/// The bytes on the heap. Of the cells, which all windows share, only those in use count, and the caches of
/// threads do not.
fn heap() -> usize {
    let cells = CellMemory::current();
    dhat::HeapStats::get().curr_bytes - cells.bytes - cells.cache_bytes + cells.in_use * CELL
}

/// Has the other program count: built by the cargo that runs this one, into the same folder.
pub(crate) fn measure() -> Option<Counted> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let program = env::current_exe().ok()?;
    let target = program.parent().and_then(Path::parent)?;
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--locked", "--bin", "bytes", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .output()
        .ok()?;
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    let lines = String::from_utf8_lossy(&output.stdout);
    let (nodes, resources): (Vec<_>, Vec<_>) =
        lines.lines().partition(|line| line.starts_with("node\t"));
    Some(Counted {
        resources: resources.into_iter().map(parse).collect::<Option<_>>()?,
        nodes: nodes.into_iter().map(parse_node).collect::<Option<_>>()?,
    })
}

fn parse_node(line: &str) -> Option<NodeBytes> {
    let numbers: Vec<usize> =
        line.split('\t').skip(1).map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let [threads, bytes, cells, bytes_after, cells_after] = numbers[..] else { return None };
    Some(NodeBytes { threads, recording: (bytes, cells), ended: (bytes_after, cells_after) })
}

fn parse(line: &str) -> Option<Bytes> {
    let mut fields = line.splitn(5, '\t');
    let mut stages = [0; 4];
    for stage in &mut stages {
        *stage = fields.next()?.parse().ok()?;
    }
    Some(Bytes { name: fields.next()?.to_owned(), stages })
}

/// Makes one, and counts after each stage of its use.
fn count<T: Sync>(name: &str, make: impl Fn() -> T, record: impl Fn(&T, u32) + Sync) -> Bytes {
    // What a thread takes once, for all of them.
    let other = make();
    record(&other, 0);
    both(&other, 0..1, &record);
    drop(other);

    let before = heap();
    let grown = || heap() - before + size_of::<T>();
    let value = make();
    let never = grown();
    record(&value, 0);
    let once = grown();
    (1..BUCKETS).for_each(|number| record(&value, number));
    let minute = grown();
    drop(value);
    Bytes { name: name.to_owned(), stages: [never, once, minute, of_two(make, record)] }
}

/// What one takes that two threads have used for a minute.
fn of_two<T: Sync>(make: impl Fn() -> T, record: impl Fn(&T, u32) + Sync) -> usize {
    let before = heap();
    let value = make();
    both(&value, 0..BUCKETS, &record);
    heap() - before + size_of::<T>()
}

/// A node that this many threads use for a minute, all of them in each bucket.
fn node(threads: usize) -> NodeBytes {
    let cells = || CellMemory::current().in_use;
    let (before, cells_before) = (heap(), cells());
    let clock = ManualClock::new(time(0));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let taken = |bytes: usize| (bytes - before + size_of_val(&node), cells() - cells_before);
    let turn = Barrier::new(threads + 1);
    let recording = thread::scope(|scope| {
        let run = || {
            // The first wait ends once all threads have started.
            turn.wait();
            for _ in 0..BUCKETS {
                turn.wait();
                node.enter().success();
                turn.wait();
            }
            turn.wait();
        };
        let start = heap();
        let recorders: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        turn.wait();
        let of_threads = heap() - start;
        for number in 1..=BUCKETS {
            clock.set(time(number));
            turn.wait();
            turn.wait();
        }
        let recording = taken(heap() - of_threads);
        turn.wait();
        // Unlike the end of the scope, a join waits until the thread's locals are dropped.
        for recorder in recorders {
            recorder.join().expect("no panic");
        }
        recording
    });
    for number in BUCKETS + 1..=2 * BUCKETS {
        clock.set(time(number));
        node.enter().success();
    }
    NodeBytes { threads, recording, ended: taken(heap()) }
}

/// Two threads that record in each bucket at the same time.
fn both<T: Sync>(value: &T, numbers: std::ops::Range<u32>, record: &(impl Fn(&T, u32) + Sync)) {
    let turn = Barrier::new(2);
    let run = || {
        for number in numbers.clone() {
            turn.wait();
            (0..50_000).for_each(|_| record(value, number));
        }
    };
    thread::scope(|scope| {
        // Joined one by one, so that nothing is left of them: a scope does not wait for that.
        for thread in [scope.spawn(run), scope.spawn(run)] {
            thread.join().expect("no panic");
        }
    });
}

/// The time of a bucket: of an hour that no clock shows any more, so that nobody's is newer.
fn time(number: u32) -> Timestamp {
    Timestamp::from_secs(1_540_629_300).saturating_add(BUCKET_LEN * number)
}

fn ours() -> Bytes {
    let clock = ManualClock::new(time(0));
    let make = || SlidingWindow::with_clock(config(120, BUCKET_LEN), clock.clone());
    count(OURS, make, |window, number| {
        window.add_at(time(number), Pass, 1);
        window.record_success_at(time(number), Duration::from_millis(1));
    })
}

fn ring<R: Ring>(name: &str, make: impl Fn() -> R) -> Bytes {
    count(name, make, |ring, number| {
        ring.record(time(number));
        ring.finish(time(number), 1_000_000);
    })
}

/// Its node takes no time: it goes by the system's.
fn sentinel() -> Bytes {
    // The nodes are in a map of the process: each make is another one.
    let number = AtomicU64::new(0);
    let make = || {
        let name = format!("bytes {}", number.fetch_add(1, Ordering::Relaxed));
        get_or_create_resource_node(&name, &ResourceType::Common)
    };
    count("sentinel-core node, 20 × 500 ms (no minute)", make, |node, _| {
        node.add_count(MetricEvent::Pass, 1);
        node.add_count(MetricEvent::Complete, 1);
        node.add_count(MetricEvent::Rt, 1);
    })
}
