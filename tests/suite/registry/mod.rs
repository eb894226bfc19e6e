//! Resources by name, with a manual clock.

mod contexts;
mod data;
mod geometry;
mod histogram;
mod leaving;
mod listed;
mod names;
mod readings;
mod seconds;
mod series;
mod snapshot;
mod unfinished;
mod visit;
mod watched;

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};

const NOON: Timestamp = Timestamp::from_secs(43_200);
const SECOND: Duration = Duration::from_secs(1);
const THREADS: usize = 4;

fn registry_of(config: RegistryConfig) -> (Registry<ManualClock>, ManualClock) {
    let clock = ManualClock::new(NOON);
    (Registry::with_clock(config, clock.clone()), clock)
}

fn registry() -> (Registry<ManualClock>, ManualClock) {
    registry_of(RegistryConfig::default())
}

/// Runs `work` on several threads at once, each with its number, and returns the results.
fn together<R: Send>(work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let start = Barrier::new(THREADS);
    let run = |number| {
        start.wait();
        work(number)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || run(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn names(registry: &Registry<ManualClock>) -> Vec<String> {
    let mut names: Vec<_> = registry.iter().map(|resource| resource.name().to_owned()).collect();
    names.sort();
    names
}
