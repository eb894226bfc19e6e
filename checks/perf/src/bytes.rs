//! Counts the heap bytes of one resource, in a separate program, since the counting allocator is
//! slower.

use std::env;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, RwLock};
use std::thread;
use std::time::Duration;

use leaparray::MetricEvent::Pass;
use leaparray::node::CellMemory;
use leaparray::{ManualClock, NodeConfig, ResourceNode, SlidingWindow, Timestamp};
use leaparray_perf_page::{Crowd, Value};
use sentinel_core::base::{MetricEvent, ResourceType, WriteStat};
use sentinel_core::stat::get_or_create_resource_node;

use crate::goals;
use crate::scenarios::{BUCKET_LEN, NOW, config};
use crate::standins::locked::Buckets;
use crate::standins::striped::StripedRing;
use crate::standins::{MINUTE, Ring};

/// The stages of use at which the bytes are counted.
const STAGES: [&str; 4] =
    ["never used", "used once", "a minute, one thread", "a minute, two threads"];

/// The output of the separate program: the heap bytes and the size of the values themselves.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// The name of each resource, and its bytes at each stage.
    pub(crate) resources: Vec<(String, [usize; 4])>,
    pub(crate) nodes: Vec<NodeBytes>,
}

/// The bytes of a node that several threads use.
#[derive(Debug)]
pub(crate) struct NodeBytes {
    pub(crate) threads: usize,
    /// After a minute in which all threads recorded in each bucket.
    pub(crate) recording: usize,
    /// After the threads have ended and one thread has recorded for another minute.
    pub(crate) ended: usize,
}

impl Counted {
    /// Returns the bytes as values.
    pub(crate) fn values(&self) -> Vec<Value> {
        let mut values = Vec::new();
        for (name, bytes) in &self.resources {
            let goals = if name == OURS { goals::BYTES.map(Some) } else { [None; 4] };
            for ((stage, bytes), goal) in STAGES.iter().zip(bytes).zip(goals) {
                let (case, goal) = (format!("bytes of {name}, {stage}"), goal.map(|it| it as f64));
                values.push(goals::value(case, *bytes as f64, "bytes", goal));
            }
        }
        for &NodeBytes { threads, recording, ended } in &self.nodes {
            let after_end = Crowd { ended: threads, ..Crowd::of(1) };
            for (crowd, bytes, most) in [
                (Crowd::of(threads), recording, goals::bytes_of_node(threads)),
                (after_end, ended, goals::bytes_of_node(0)),
            ] {
                let case = "memory of a node after a minute";
                let value = goals::value(case, bytes as f64, "bytes", Some(most as f64));
                values.push(Value { crowd, ..value });
            }
        }
        values
    }
}

/// The numbers of threads that use a node.
const NODE_THREADS: [usize; 3] = [1, 8, 64];
const BUCKETS: u32 = 120;
const CELL: usize = 128;

/// The name of this crate's resource.
const OURS: &str = "leaparray, 120 × 500 ms (second and minute)";

/// Counts the bytes and prints them; `leaparray-perf` parses the lines. The global allocator must
/// be `dhat`'s.
pub(crate) fn print() {
    let _profiler = dhat::Profiler::builder().testing().build();
    for (name, stages) in [
        ours(),
        ring("mutex ring, 120 × 500 ms", || Mutex::new(Buckets::new(MINUTE))),
        ring("RwLock ring, 120 × 500 ms", || RwLock::new(Buckets::new(MINUTE))),
        ring("striped ring, 120 × 500 ms", || StripedRing::new(MINUTE)),
        sentinel(),
    ] {
        println!("{name}\t{}", stages.map(|bytes| bytes.to_string()).join("\t"));
    }
    // Allocates what a thread takes once for all nodes.
    node(2);
    for NodeBytes { threads, recording, ended } in NODE_THREADS.map(node) {
        println!("node\t{threads}\t{recording}\t{ended}");
    }
}

/// Counts the bytes in the separate program. Returns no bytes if it fails.
pub(crate) fn measure() -> Counted {
    parse(&output_of_program(&[]))
}

/// Runs the separate program with arguments, and returns its output. The cargo that runs this
/// program builds it into the same target folder.
pub(crate) fn output_of_program(args: &[&str]) -> String {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let program = env::current_exe().unwrap_or_default();
    let target = program.parent().and_then(Path::parent).unwrap_or(Path::new("target"));
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--locked", "--bin", "bytes", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .arg("--")
        .args(args)
        .output()
        .expect("cargo starts");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn parse(lines: &str) -> Counted {
    let mut counted = Counted::default();
    for line in lines.lines() {
        let mut fields = line.split('\t');
        let name = fields.next().unwrap_or_default().to_owned();
        match fields.map_while(|field| field.parse().ok()).collect::<Vec<usize>>()[..] {
            [threads, recording, ended] => {
                counted.nodes.push(NodeBytes { threads, recording, ended });
            }
            [never, once, minute, two] => {
                counted.resources.push((name, [never, once, minute, two]));
            }
            _ => {}
        }
    }
    counted
}

/// Returns the bytes on the heap, with two corrections: of the slab of cells, which all windows
/// share, only the cells in use count, and the caches of threads do not count.
pub(crate) fn heap() -> usize {
    let cells = CellMemory::current();
    dhat::HeapStats::get().curr_bytes - cells.bytes - cells.cache_bytes + cells.in_use * CELL
}

/// Makes a resource, and counts its bytes after each stage of its use.
fn count<T: Sync>(
    name: &str,
    make: impl Fn() -> T,
    record: impl Fn(&T, u32) + Sync,
) -> (String, [usize; 4]) {
    // Allocates what a thread takes once for all resources.
    let other = make();
    record(&other, 0);
    record_on_two_threads(&other, 0..1, &record);
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
    let two = bytes_with_two_threads(make, record);
    (name.to_owned(), [never, once, minute, two])
}

/// Returns the bytes of a resource that two threads have used for a minute.
fn bytes_with_two_threads<T: Sync>(make: impl Fn() -> T, record: impl Fn(&T, u32) + Sync) -> usize {
    let before = heap();
    let value = make();
    record_on_two_threads(&value, 0..BUCKETS, &record);
    heap() - before + size_of::<T>()
}

/// Records on two threads, in each bucket at the same time.
fn record_on_two_threads<T: Sync>(
    value: &T,
    numbers: Range<u32>,
    record: &(impl Fn(&T, u32) + Sync),
) {
    let turn = Barrier::new(2);
    let run = || {
        for number in numbers.clone() {
            turn.wait();
            (0..50_000).for_each(|_| record(value, number));
        }
    };
    thread::scope(|scope| {
        // Joined explicitly: unlike the end of the scope, a join waits until the thread's locals
        // are dropped.
        for thread in [scope.spawn(run), scope.spawn(run)] {
            thread.join().expect("no panic");
        }
    });
}

/// Counts the bytes of a node that `threads` threads use for a minute, all of them in each bucket.
fn node(threads: usize) -> NodeBytes {
    let before = heap();
    let clock = ManualClock::new(time(0));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let grown = |heap: usize| heap - before + size_of_val(&node);
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
        let recording = grown(heap() - of_threads);
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
    NodeBytes { threads, recording, ended: grown(heap()) }
}

/// Returns the start of a bucket.
fn time(number: u32) -> Timestamp {
    NOW.saturating_add(BUCKET_LEN * number)
}

fn ours() -> (String, [usize; 4]) {
    let clock = ManualClock::new(time(0));
    let make = || SlidingWindow::with_clock(config(120, BUCKET_LEN), clock.clone());
    count(OURS, make, |window, number| {
        window.add_at(time(number), Pass, 1);
        window.record_success_at(time(number), Duration::from_millis(1));
    })
}

fn ring<R: Ring>(name: &str, make: impl Fn() -> R) -> (String, [usize; 4]) {
    count(name, make, |ring, number| {
        ring.record(time(number));
        ring.finish(time(number), 1_000_000);
    })
}

/// Sentinel's node does not take a time as an argument: it reads the system's clock.
fn sentinel() -> (String, [usize; 4]) {
    // A node is looked up by name in a map of the process, so each call uses a new name.
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
