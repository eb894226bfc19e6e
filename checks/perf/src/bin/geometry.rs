//! Measures the error of the rate of a Poisson stream, and the bytes, for each number of buckets in
//! a second. Prints the table of the guide. Times are simulated, and the random numbers have a
//! fixed seed, so each run prints the same.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers for display, far below 2⁵³"
)]

use std::time::Duration;

use leaparray::node::CellMemory;
use leaparray::{
    ManualClock, MetricEvent, NodeConfig, Outcome, ResourceNode, Timestamp, WindowConfig,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::Exp1;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const PER_SECOND: f64 = 1_000.0;
const SECONDS: u64 = 2_000;
const NANOS_PER_SEC: f64 = 1e9;
const CELL_BYTES: usize = 128;

fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    println!(
        "| buckets in a second | mean of `qps` | error of `qps` | mean of `qps_over_interval` | its error | bytes |"
    );
    println!("|---|---|---|---|---|---|");
    for buckets in [1, 2, 4, 5, 10, 20] {
        let node = Sample::new(buckets);
        let [rate, over_interval] = node.errors();
        println!(
            "| {buckets} | {:.0} | {:.2} | {:.0} | {:.2} | {:.1} KB |",
            rate.mean(),
            rate.relative(),
            over_interval.mean(),
            over_interval.relative(),
            bytes(buckets) as f64 / 1e3,
        );
    }
}

fn config(buckets: usize) -> NodeConfig {
    let second = Duration::from_secs(1);
    let short = WindowConfig::new(buckets, second).expect("it divides a second");
    let long = WindowConfig::new(60 * buckets, 60 * second).expect("it divides a minute");
    NodeConfig::new(short, long).expect("the buckets are the same")
}

/// The bytes of a node that one thread has used for a minute, with the thread's cell.
fn bytes(buckets: usize) -> usize {
    let now = || {
        let cells = CellMemory::current();
        dhat::HeapStats::get().curr_bytes - cells.bytes - cells.cache_bytes
            + cells.in_use * CELL_BYTES
    };
    let before = now();
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let node = ResourceNode::with_clock(config(buckets), clock.clone());
    for _ in 0..70 * buckets {
        node.enter().success();
        clock.advance(node.config().long().bucket_len());
    }
    now() - before
}

/// A node that receives a Poisson stream and is read at random times.
struct Sample {
    node: ResourceNode<ManualClock>,
    random: StdRng,
}

impl Sample {
    fn new(buckets: usize) -> Self {
        let clock = ManualClock::new(Timestamp::MIN);
        Self {
            node: ResourceNode::with_clock(config(buckets), clock),
            random: StdRng::seed_from_u64(16),
        }
    }

    /// Returns the errors of the rate and of the sum over the interval.
    fn errors(mut self) -> [Error; 2] {
        let mut errors = [Error::default(); 2];
        let (mut event, mut read) = (self.after(0.0, PER_SECOND), 2e9);
        while read < SECONDS as f64 * NANOS_PER_SEC {
            if event < read {
                let now = Timestamp::from_nanos(event as u64);
                self.node.enter_at(now).end_at(now, Outcome::Success);
                event = self.after(event, PER_SECOND);
            } else {
                let now = Timestamp::from_nanos(read as u64);
                errors[0].add(self.node.at(now).short().qps(MetricEvent::Pass));
                errors[1].add(self.node.at(now).short().qps_over_interval(MetricEvent::Pass));
                read = self.after(read, 50.0);
            }
        }
        errors
    }

    /// Returns the time of the next event of a stream, in nanoseconds.
    fn after(&mut self, nanos: f64, per_second: f64) -> f64 {
        let gap: f64 = self.random.sample(Exp1);
        nanos + gap * NANOS_PER_SEC / per_second
    }
}

/// The readings of one rate, and their squared errors.
#[derive(Clone, Copy, Default)]
struct Error {
    readings: f64,
    sum: f64,
    squares: f64,
}

impl Error {
    fn add(&mut self, read: f64) {
        self.readings += 1.0;
        self.sum += read;
        self.squares += (read - PER_SECOND).powi(2);
    }

    fn mean(&self) -> f64 {
        self.sum / self.readings
    }

    /// The root mean square error, as a multiple of the error of a window of exactly the last
    /// second.
    fn relative(&self) -> f64 {
        (self.squares / self.readings / PER_SECOND).sqrt()
    }
}
