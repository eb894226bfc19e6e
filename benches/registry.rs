//! What it costs to look up a known name among 100,000, beside a `std` `HashMap` that is asked for the
//! same names in turn with it.
//!
//! The names are asked for in an order without any order, so that each look-up comes upon memory that
//! was not used lately: what is compared is how far each has to go for it. The map's values are
//! `Arc`s of nodes. It is asked for a reference, as `HashMap::get` gives one out, and for a clone of the
//! `Arc`, which is what can be kept as a `Resource` can.
//!
//! Not by criterion: the rounds of the four take turns, and the ratio is of medians of them.
//!
//! ```console
//! $ cargo bench --bench registry
//! ```

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use leaparray::{ManualClock, NodeConfig, Registry, RegistryConfig, ResourceNode, Timestamp};

const NAMES: usize = 100_000;
const NANOS_PER_SEC: f64 = 1e9;

/// How many rounds there are, and how often each goes through all names: once does where nothing is
/// measured.
fn rounds_and_laps() -> (usize, usize) {
    let measures = std::env::args().any(|argument| argument == "--bench");
    if measures { (16, 3) } else { (1, 1) }
}

fn names() -> Vec<String> {
    let mut names: Vec<_> = (0..NAMES).map(|i| format!("GET /service/resource/{i}")).collect();
    // Fisher and Yates, with numbers of xorshift: the same order each time.
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

/// Nanoseconds for each name.
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
    let names = names();
    for name in &names {
        registry.resource(name).expect("there is a place for each");
        let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
        map.insert(name.clone(), Arc::new(node));
    }

    println!("a known name of {NAMES}, in ns, medians, and times `HashMap::get`:");
    compare("each in turn", &names, &map, &registry);
    // What all requests ask for, if they do not keep it: nothing has to be fetched.
    compare("the same again", &vec![names[0].clone(); NAMES], &map, &registry);
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
        // To and fro: each finds in the caches what the one before has left there.
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
