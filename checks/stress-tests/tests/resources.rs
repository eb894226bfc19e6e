//! Resources by name: entries that end on any thread, while the geometry changes and resources are
//! evicted and removed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, ReservedPass, Success};
use leaparray::node::{OnDrop, SecondsCursor};
use leaparray::registry::WeakResource;
use leaparray::{
    Clock, Entry, HistogramConfig, ManualClock, NodeConfig, Registry, RegistryConfig, Resource,
    Timestamp, WindowConfig,
};
use leaparray_stress_tests::{BUCKET, Round, rounds, stall, work};

type Held = Entry<Resource<ManualClock>, ManualClock>;

const NAMES: [&str; 3] = ["orders", "users", "search"];

/// The writers' own counts. An entered request is counted before it enters, every other event after
/// it was recorded.
#[derive(Debug, Default)]
struct Counts {
    entered: AtomicU64,
    ended: AtomicU64,
    succeeded: AtomicU64,
    cancelled: AtomicU64,
    blocked: AtomicU64,
    reserved: AtomicU64,
}

struct Stress {
    round: Round,
    clock: ManualClock,
    registry: Registry<ManualClock>,
    counts: Counts,
    /// Entries in flight, which may end on a thread other than the one on which they entered.
    in_flight: Mutex<Vec<Held>>,
}

fn geometry(samples: u32) -> NodeConfig {
    let window = |len: u32| WindowConfig::new(len as usize, BUCKET * len).expect("not empty");
    let histogram =
        HistogramConfig::with_scale(if samples == 3 { 6 } else { 4 }).expect("at most 8");
    let config = NodeConfig::new(window(samples), window(10 * samples)).expect("a tenth");
    config.with_histogram(histogram)
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Stress {
    fn new(round: Round) -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(1));
        let config = RegistryConfig::default().node(geometry(round.samples));
        let registry = Registry::with_clock(config, clock.clone());
        Self { round, clock, registry, counts: Counts::default(), in_flight: Mutex::default() }
    }

    fn run(&self) {
        let (mut turn, mut recorded) = (0_u32, 0);
        let cursor = SecondsCursor::new();
        work(
            self.round.writers,
            |writer| self.write(writer),
            vec![
                Box::new(|| {
                    turn += 1;
                    self.disturb(turn);
                }),
                Box::new(|| recorded = self.read(&cursor, recorded)),
            ],
        );
        self.in_flight.lock().unwrap().drain(..).for_each(|entry| self.end(entry, 0));
        self.check_counts();
    }

    fn write(&self, writer: usize) {
        let mut found = [const { None::<WeakResource<ManualClock>> }; NAMES.len()];
        for turn in writer..writer + self.round.turns as usize / self.round.writers / 4 {
            self.clock.advance(BUCKET / 4);
            // Every other writer has a cache of look-ups.
            let cached = found[turn % 3].as_ref().and_then(WeakResource::upgrade);
            let resource = cached.unwrap_or_else(|| {
                self.registry.resource(NAMES[turn % 3]).expect("three are listed")
            });
            if writer.is_multiple_of(2) {
                found[turn % 3] = Some(resource.downgrade());
            }
            count(&self.counts.entered, 1);
            let entry = Entry::enter(resource.clone());
            stall();
            if turn % 5 == 0 {
                resource.block();
                count(&self.counts.blocked, 1);
            }
            if turn % 7 == 0
                && resource.reserve_next_at(resource.clock().now(), 1, u64::MAX).is_some()
            {
                count(&self.counts.reserved, 1);
            }
            let other = {
                let mut in_flight = self.in_flight.lock().unwrap();
                in_flight.push(entry);
                if in_flight.len() > 4 { Some(in_flight.swap_remove(turn % 4)) } else { None }
            };
            if let Some(entry) = other {
                self.end(entry, turn);
            }
        }
    }

    fn end(&self, entry: Held, turn: usize) {
        match turn % 5 {
            0 | 1 => {
                entry.success();
                count(&self.counts.succeeded, 1);
            }
            2 => entry.exception(),
            3 => {
                // A cancellation, or the drop of a future.
                if turn.is_multiple_of(2) {
                    entry.cancel();
                } else {
                    drop(entry.on_drop(OnDrop::Cancelled));
                }
                count(&self.counts.cancelled, 1);
            }
            _ => drop(entry),
        }
        count(&self.counts.ended, 1);
    }

    fn disturb(&self, turn: u32) {
        self.registry.reconfigure(geometry(1 + turn % 3));
        self.registry.evict_idle_at(self.registry.clock().now(), Duration::ZERO);
        if turn.is_multiple_of(16) {
            self.registry.remove(NAMES[turn as usize / 16 % 3]);
        }
    }

    /// Checks reads of the registry, and returns the number of ended requests in its lifetime
    /// totals, which was at least `at_least` before.
    fn read(&self, cursor: &SecondsCursor, at_least: u64) -> u64 {
        let ended = self.counts.ended.load(Ordering::Relaxed);
        let lifetime = self.registry.lifetime();
        let recorded: u64 =
            [Success, Exception, Cancelled].map(|event| lifetime.sum(event)).iter().sum();
        assert!(recorded >= ended.max(at_least), "{recorded} of {ended}, {at_least} before");
        for resource in &self.registry {
            let snapshot = resource.now().snapshot();
            let (concurrency, entered) =
                (snapshot.concurrency, self.counts.entered.load(Ordering::Relaxed));
            assert!(concurrency <= entered, "{concurrency} in flight, {entered} have entered");
            for window in [&snapshot.short, &snapshot.long] {
                let totals = &window.totals;
                assert!(totals.rt_count() <= totals.sum(Success) + totals.sum(Exception));
                assert!(totals.avg_rt() <= totals.max_rt());
                let max = window.quantiles.map(|quantiles| quantiles.p999);
                assert!(max <= totals.max_rt(), "{window:?}");
            }
            let seconds = resource.now().poll_seconds(cursor);
            assert!(seconds.map(|item| item.second).is_sorted());
        }
        recorded
    }

    fn check_counts(&self) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let lifetime = self.registry.lifetime();
        let (entered, reserved) = (of(&self.counts.entered), of(&self.counts.reserved));
        let cancelled = of(&self.counts.cancelled);
        let exceptions = entered - of(&self.counts.succeeded) - cancelled;
        assert_eq!(of(&self.counts.ended), entered);
        assert_eq!(
            [Pass, Success, Exception, Cancelled, Block, ReservedPass]
                .map(|event| lifetime.sum(event)),
            [
                entered + reserved,
                of(&self.counts.succeeded),
                exceptions,
                cancelled,
                of(&self.counts.blocked),
                reserved
            ]
        );
        assert_eq!(lifetime.rt_count(), entered - cancelled);
        for resource in &self.registry {
            assert_eq!(resource.concurrency(), 0);
            let histogram = resource.lifetime_histogram().expect("all geometries have one");
            assert_eq!(histogram.count(), resource.lifetime().rt_count());
        }
    }
}

#[test]
fn counts_of_a_registry_balance() {
    for round in rounds() {
        Stress::new(round).run();
    }
}
