//! Measures the cost of a second of the stream, and recording beside it. Prints a table for the
//! README.
//!
//! ```sh
//! cargo bench -p leaparray-web --bench stream
//! ```

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use leaparray::{
    Clock, HistogramConfig, ManualClock, NodeConfig, Outcome, Registry, RegistryConfig, Resource,
    Timestamp,
};
use leaparray_web::steps::{Judging, SteppedViewer, Steps};

const RESOURCES: usize = 10_000;
const JUDGED: usize = 5_000;
const SECONDS: usize = 21;
const VIEWERS: usize = 8;

fn main() {
    // `cargo test --benches` passes no `--bench`, and checks only that this runs.
    let is_measured = std::env::args().any(|it| it == "--bench");
    let (resources, seconds) = if is_measured { (RESOURCES, SECONDS) } else { (100, 3) };
    cost(resources, seconds);
    judging(if is_measured { JUDGED } else { 100 });
    let (pairs, block) =
        if is_measured { (30, Duration::from_secs(1)) } else { (1, Duration::ZERO) };
    recording(resources, pairs, block);
}

fn registry<C: Clock + Clone>(resources: usize, clock: C) -> (Arc<Registry<C>>, Vec<Resource<C>>) {
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    let config = RegistryConfig::default().node(node).max_resources(resources);
    let registry = Registry::with_clock(config, clock);
    let name = |index| format!("GET /orders/{index}");
    let list = |index| registry.resource(&name(index)).expect("there is room");
    let all = (0..resources).map(list).collect();
    (Arc::new(registry), all)
}

/// The medians of the times to read and to serialize a second in which each resource had 5 to 25
/// requests.
fn cost(resources: usize, seconds: usize) {
    let clock = ManualClock::new(Timestamp::from_secs(1_000));
    let (registry, all) = registry(resources, clock.clone());
    let mut steps = Steps::new(registry);
    let viewers: Vec<_> = (0..VIEWERS).filter_map(|_| steps.join(None, None)).collect();
    let mut random = Rng::with_seed(1);
    let (mut reading, mut sending, mut length) = (Vec::new(), Vec::new(), 0);
    for _ in 0..seconds + 2 {
        load(&all, clock.now(), &mut random);
        clock.advance(Duration::from_secs(1));
        let start = busy();
        let found = steps.read(clock.now());
        let between = busy();
        length = steps.send(found);
        sending.push(busy().saturating_sub(between));
        reading.push(between.saturating_sub(start));
        take_all(&viewers);
    }
    // The first ones allocate what the others use again.
    let [reading, sending] = [reading, sending].map(|mut it| median(&mut it[2..]));
    let millis = |it: Duration| it.as_secs_f64() * 1e3;
    println!("| a second of {resources} resources, {VIEWERS} viewers | ms |\n|---|---:|");
    println!("| reading | {:.1} |", millis(reading));
    println!("| serializing and sending | {:.1} |", millis(sending));
    println!("| both | {:.1} |", millis(reading + sending));
    println!("\n{length} bytes, {} for each resource", length / resources);
}

/// The times to judge a second of resources with a circuit breaker each, of which each tenth
/// fails: the median of those in which nothing changes, and the longest one of those in which all
/// breakers open or close.
fn judging(resources: usize) {
    let mut judging = Judging::new(resources);
    let mut time = |state| {
        let start = busy();
        black_box(judging.second(state));
        busy().saturating_sub(start)
    };
    // A minute fills the times that are compared.
    let mut steady: Vec<_> = (0..120).map(|_| time("closed")).collect();
    let changing = ["open", "closed"].into_iter().cycle().take(20).map(time).max();
    let millis = |it: Duration| it.as_secs_f64() * 1e3;
    println!(
        "\n| judging a second of {resources} resources with a breaker each | ms |\n|---|---:|"
    );
    println!("| nothing changes | {:.1} |", millis(median(&mut steady[60..])));
    println!("| all breakers change | {:.1} |", millis(changing.unwrap_or_default()));
}

/// Returns the time for which this thread has had a processor.
#[cfg(unix)]
fn busy() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("not negative")
}

/// Returns the time since the first call.
#[cfg(not(unix))]
fn busy() -> Duration {
    static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

/// Records 5 to 25 requests of each resource in the second of `now`.
fn load(all: &[Resource<ManualClock>], now: Timestamp, random: &mut Rng) {
    for resource in all {
        for _ in 0..random.u32(5..=25) {
            let start = now.saturating_add(Duration::from_millis(random.u64(0..500)));
            let time = Duration::from_secs_f64(0.002 * (3.0 * random.f64()).exp());
            resource.enter_at(start).end_at(start.saturating_add(time), Outcome::Success);
        }
    }
}

/// The time of a request beside a hub with viewers, as a ratio to the time beside one without, in
/// pairs of blocks of a second: the hub reads in each block of the first kind.
fn recording(resources: usize, pairs: usize, block: Duration) {
    let (registry, all) = registry(resources, leaparray::MonotonicClock::new());
    let is_over = Arc::new(AtomicBool::new(false));
    let is_reading = Arc::new(AtomicBool::new(false));
    let hub = {
        let (registry, is_over, is_reading) =
            (Arc::clone(&registry), Arc::clone(&is_over), Arc::clone(&is_reading));
        thread::spawn(move || read_each_second(&registry, &is_over, &is_reading))
    };
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        let mut times = [0.0; 2];
        for is_with in [pair % 2 == 0, pair % 2 != 0] {
            is_reading.store(is_with, Ordering::Relaxed);
            times[usize::from(is_with)] = time_of_a_request(&all, block);
        }
        ratios.push(times[1] / times[0]);
    }
    is_over.store(true, Ordering::Relaxed);
    let readings = hub.join().expect("the hub does not panic");
    ratios.sort_unstable_by(f64::total_cmp);
    let quartile = |it: usize| ratios[(ratios.len() - 1) * it / 4];
    println!(
        "\na request beside {VIEWERS} viewers takes {:.3} times as long as one beside none ({:.3} to {:.3} in half of \
         {pairs} pairs of blocks, with {readings} readings of {resources} resources)",
        quartile(2),
        quartile(1),
        quartile(3)
    );
}

/// Reads once a second while `is_reading`. Returns the number of readings.
fn read_each_second(
    registry: &Arc<Registry>,
    is_over: &AtomicBool,
    is_reading: &AtomicBool,
) -> u32 {
    let mut steps = Steps::new(Arc::clone(registry));
    let viewers: Vec<_> = (0..VIEWERS).filter_map(|_| steps.join(None, None)).collect();
    let (mut last, mut readings) = (registry.clock().now(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let now = registry.clock().now();
        if is_reading.load(Ordering::Relaxed) && now.as_secs() > last.as_secs() {
            steps.step(now);
            take_all(&viewers);
            (last, readings) = (now, readings + 1);
        }
        thread::sleep(Duration::from_millis(5));
    }
    readings
}

/// Returns the nanoseconds that a request takes, over a block of that length.
fn time_of_a_request(all: &[Resource], block: Duration) -> f64 {
    let (start, mut requests) = (Instant::now(), 0.0);
    while start.elapsed() < block {
        for resource in all {
            resource.enter().success();
            requests += 1.0;
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / requests
}

fn take_all(viewers: &[SteppedViewer]) {
    for viewer in viewers {
        while black_box(viewer.take()).is_some() {}
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
