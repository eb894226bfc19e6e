//! The cost of a look-up of a known name among 100,000, compared with a look-up of the same names
//! in a `std` `HashMap`.
//!
//! The names are looked up in a random order, so that each look-up accesses memory that was not
//! used recently, and the cache misses are compared. The values of the map are `Arc`s of nodes. The
//! map is measured with `HashMap::get`, which returns a reference, and with a clone of the `Arc`,
//! which can be kept as a `Resource` can.
//!
//! The last part measures requests of one thread in many resources in turn, whose handles are
//! kept, at a given time. Beside them is a chain of as many cache lines, for the memory alone:
//! handle, node, window, entry of the thread's cache, cell.
//!
//! This bench does not use criterion: the rounds of the ways alternate, and the ratios are ratios
//! of their medians. Of requests in turn, it prints the quiet tenth of the rounds.
//!
//! ```console
//! $ cargo bench --bench registry
//! ```

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use leaparray::{
    Entry, ManualClock, NodeConfig, Outcome, Registry, RegistryConfig, ResourceNode, Timestamp,
};

const NAMES: usize = 100_000;
const NANOS_PER_SEC: f64 = 1e9;

/// The number of rounds, and of passes over all names in a round. Without `--bench`, nothing is
/// measured, and one of each is enough.
fn rounds_and_laps() -> (usize, usize) {
    let measures = std::env::args().any(|argument| argument == "--bench");
    if measures { (16, 3) } else { (1, 1) }
}

fn names(count: usize) -> Vec<String> {
    let mut names: Vec<_> = (0..count).map(|i| format!("GET /service/resource/{i}")).collect();
    // A Fisher-Yates shuffle by xorshift numbers: the same order each time.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for i in (1..names.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let j = usize::try_from(state % (i as u64 + 1)).expect("at most i");
        names.swap(i, j);
    }
    names
}

/// The time of one look-up, in nanoseconds.
fn time<R>(laps: usize, names: &[String], look_up: impl Fn(&str) -> R) -> f64 {
    let start = Instant::now();
    for _ in 0..laps {
        for name in names {
            black_box(look_up(black_box(name)));
        }
    }
    let lookups = u32::try_from(laps * names.len()).expect("a few millions");
    start.elapsed().as_secs_f64() * NANOS_PER_SEC / f64::from(lookups)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let clock = ManualClock::new(Timestamp::MIN);
    let config = RegistryConfig::default().max_resources(NAMES);
    let registry = Registry::with_clock(config, clock.clone());
    let mut map = HashMap::new();
    let names = names(NAMES);
    for name in &names {
        registry.resource(name).expect("there is room for each");
        let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
        map.insert(name.clone(), Arc::new(node));
    }

    println!("a known name of {NAMES}: median in ns, and as a multiple of `HashMap::get`:");
    compare("random order", &names, &map, &registry);
    // One name, as if all requests look it up and do not keep the resource: all accesses hit the
    // cache.
    compare("the same name", &vec![names[0].clone(); NAMES], &map, &registry);

    println!("a request in each of some resources in turn: ns, and of its memory alone:");
    for count in [100, 1_000, 2_000, 10_000] {
        in_turn(count);
    }
}

/// A link of the chain of cache lines.
#[repr(align(128))]
struct Line<T>(T, u64);

/// What a request reads before the entry of the cache: the handle, the node and the window, which
/// has the number of the entry.
type Handle = Box<Line<Box<Line<Box<Line<usize>>>>>>;

/// Measures requests in `count` resources in turn, and their chains of cache lines.
fn in_turn(count: usize) {
    let now = Timestamp::from_secs(3_600);
    let config = RegistryConfig::default().max_resources(count);
    let registry = Registry::with_clock(config, ManualClock::new(now));
    let names = names(count);
    let resources: Vec<_> =
        names.iter().map(|name| registry.resource(name).expect("there is room for each")).collect();
    // By their names: a random order of their memory.
    let mut order: Vec<_> = (0..count).collect();
    order.sort_by_key(|&number| &names[number]);
    let request = || {
        for &number in &order {
            Entry::enter_at(black_box(&resources[number]).clone(), now)
                .end_at(now, Outcome::Success);
        }
    };
    // In another order than the handles, as the sets of the cache are. 7,919 is a prime.
    let entry_of = |number: usize| (number * 7_919 + 13) % count;
    let link = |number| Line(Box::new(Line(Box::new(Line(entry_of(number), 0)), 0)), 0);
    let mut handles: Vec<Handle> = (0..count).map(|number| Box::new(link(number))).collect();
    let mut entries: Vec<_> =
        (0..count).map(|_| Line(Box::new(Line([0_u64; 16], 0)), 0_u64)).collect();
    let mut chain = || {
        for &number in &order {
            let handle = black_box(&mut handles[number]);
            handle.1 += 1;
            let Line(cell, gauge) = &mut entries[handle.0.0.0];
            *gauge += 1;
            let Line(events, _) = &mut **cell;
            events[0] += 1;
            events[12] += 1;
            handle.1 -= 1;
        }
    };
    let (rounds, laps) = rounds_and_laps();
    // One lap without `--bench`.
    let (rounds, laps) = (rounds * 4, 1 + (laps - 1) * 50_000 / count);
    let requests = u32::try_from(laps * count).expect("some hundred thousand");
    let time = |way: &mut dyn FnMut()| {
        // Once before: each way finds its memory in the caches, as far as it has room there.
        way();
        let start = Instant::now();
        (0..laps).for_each(|_| way());
        start.elapsed().as_secs_f64() * NANOS_PER_SEC / f64::from(requests)
    };
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        times[0].push(time(&mut || request()));
        times[1].push(time(&mut chain));
    }
    let [request, chain] = times.map(quiet_tenth);
    println!("{count:6} resources {request:7.1} {chain:7.1}");
}

fn quiet_tenth(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 10]
}

fn compare(
    order: &str,
    names: &[String],
    map: &HashMap<String, Arc<ResourceNode<ManualClock>>>,
    registry: &Registry<ManualClock>,
) {
    let (round_count, laps) = rounds_and_laps();
    let ways: [&dyn Fn() -> f64; 4] = [
        &|| time(laps, names, |name| map.get(name).map(std::ptr::from_ref)),
        &|| time(laps, names, |name| map.get(name).map(Arc::clone)),
        &|| time(laps, names, |name| registry.get(name)),
        &|| time(laps, names, |name| registry.resource(name)),
    ];
    let mut rounds = ways.map(|_| Vec::new());
    for round in 0..round_count {
        // In alternating order, since each way finds the caches as the way before it has left them.
        for turn in 0..ways.len() {
            let way = if round % 2 == 0 { turn } else { ways.len() - 1 - turn };
            rounds[way].push(ways[way]());
        }
    }
    let [reference, clone, get, resource] = rounds.map(median);
    let row = |what, time: f64| {
        println!("{order:16} {what:26} {time:7.1} {:6.2}", time / reference);
    };
    row("HashMap::get", reference);
    row("HashMap::get, Arc::clone", clone);
    row("Registry::get", get);
    row("Registry::resource", resource);
}
