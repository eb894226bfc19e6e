//! The seconds of a registry: threads poll them while other threads record in resources, evict and
//! remove them. Each second is delivered once, and the seconds add up to the lifetime totals.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use leaparray::MetricEvent::{Block, Exception, Pass, Rt, Success};
use leaparray::metric::SecondMetrics;
use leaparray::registry::{RegistryCursor, ResourceSecond, Visited};
use leaparray::{
    Clock, Entry, ManualClock, NodeConfig, Registry, RegistryConfig, Timestamp, WindowConfig,
};
use leaparray_stress_tests::{Round, rounds, stall, work};

const NAMES: [&str; 3] = ["orders", "users", "search"];

/// The name of a resource and of its context.
type Names = (String, Option<String>);

struct Stress {
    round: Round,
    /// Whether the seconds are read by visits instead of polls.
    visits: bool,
    clock: ManualClock,
    registry: Registry<ManualClock>,
    /// Held shared while a thread records, and exclusively while the time advances. So no thread
    /// records in a second that is over: such a record would be in the totals, and in no second.
    /// The number of seconds that are over.
    time: RwLock<u32>,
    turns: AtomicU64,
    cursor: RegistryCursor,
    delivered: Mutex<Delivered>,
}

#[derive(Default)]
struct Delivered {
    sum: SecondMetrics,
    seen: HashSet<(Timestamp, String, Option<String>)>,
}

/// A long window of thirty seconds.
fn geometry(samples: u32) -> NodeConfig {
    let samples = samples as usize;
    let short = WindowConfig::new(samples, Duration::from_secs(1)).expect("whole nanoseconds");
    let long = WindowConfig::new(30 * samples, Duration::from_secs(30)).expect("whole nanoseconds");
    NodeConfig::new(short, long).expect("the same buckets")
}

impl Stress {
    fn new(round: Round, visits: bool) -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let config = RegistryConfig::default().node(geometry(round.samples));
        let registry = Registry::with_clock(config, clock.clone());
        let cursor = RegistryCursor::new();
        // From here on, the seconds of evicted resources are kept.
        registry.now().poll_seconds(&cursor);
        let (time, turns, delivered) = (RwLock::default(), AtomicU64::new(0), Mutex::default());
        Self { round, visits, clock, registry, time, turns, cursor, delivered }
    }

    fn run(&self) {
        let mut turn = 0;
        work(
            self.round.writers,
            |writer| self.write(writer),
            vec![
                Box::new(|| {
                    turn += 1;
                    self.disturb(turn);
                }),
                Box::new(|| self.poll()),
                Box::new(|| self.poll()),
            ],
        );
        self.clock.advance(Duration::from_secs(1));
        self.poll();
        self.check();
    }

    fn write(&self, writer: usize) {
        for turn in writer..writer + self.round.turns as usize / self.round.writers / 4 {
            let time_stands = self.time.read().unwrap_or_else(PoisonError::into_inner);
            let resource = self.registry.resource(NAMES[turn % 3]).expect("three are listed");
            let resource = match turn % 4 {
                0 => resource.in_context("web").expect("the only context"),
                _ => resource,
            };
            let entry = Entry::enter(resource.clone());
            stall();
            if turn.is_multiple_of(5) {
                resource.block();
            }
            if turn.is_multiple_of(7) {
                entry.exception();
            } else {
                entry.success();
            }
            drop((resource, time_stands));
            if self.turns.fetch_add(1, Ordering::Relaxed) % 32 == 31 {
                let mut over = self.time.write().unwrap_or_else(PoisonError::into_inner);
                self.clock.advance(Duration::from_secs(1));
                *over += 1;
                // The window is thirty seconds long, and the other threads may not run for longer
                // than that.
                if over.is_multiple_of(8) {
                    self.poll();
                }
            }
        }
    }

    fn disturb(&self, turn: usize) {
        self.registry.evict_idle_at(self.registry.clock().now(), Duration::ZERO);
        if turn.is_multiple_of(4) {
            self.registry.remove(NAMES[turn / 4 % 3]);
        }
        if turn.is_multiple_of(64) {
            self.registry.lifetime();
        }
    }

    fn poll(&self) {
        let seconds = if self.visits { self.visit() } else { self.poll_seconds() };
        stall();
        let mut delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        for (names, metrics) in seconds {
            delivered.sum += &metrics;
            let (name, context) = names;
            let key = (metrics.second, name, context);
            assert!(delivered.seen.insert(key), "delivered twice: {:?}", metrics.second);
        }
    }

    fn poll_seconds(&self) -> Vec<(Names, SecondMetrics)> {
        self.registry.now().poll_seconds(&self.cursor).iter().map(of_second).collect()
    }

    fn visit(&self) -> Vec<(Names, SecondMetrics)> {
        let (mut seconds, mut names) = (Vec::new(), None);
        let now = self.registry.clock().now();
        self.registry.at(now).visit_seconds(&self.cursor, |visited| match visited {
            Visited::Seconds(_) => {}
            Visited::Node(node) => {
                names = Some((node.name.to_string(), node.context.map(ToString::to_string)));
            }
            Visited::Second(metrics) => {
                let names = names.clone().expect("its node comes first");
                seconds.push((names, metrics.clone()));
            }
            Visited::Delisted(second) => seconds.push(of_second(second)),
            _ => unreachable!("these are all"),
        });
        seconds
    }

    fn check(&self) {
        let lifetime = self.registry.lifetime();
        let delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = &delivered.sum;
        assert_eq!(self.cursor.missed(), 0);
        assert_eq!(
            [sum.counts[Pass], sum.counts[Success], sum.counts[Exception], sum.counts[Block]],
            [Pass, Success, Exception, Block].map(|event| lifetime.sum(event))
        );
        assert_eq!((sum.counts[Rt], sum.counts.rt_sum()), (lifetime.rt_count(), lifetime.rt_sum()));
    }
}

fn of_second(second: &ResourceSecond) -> (Names, SecondMetrics) {
    let context = second.context.as_deref().map(str::to_owned);
    (((*second.name).to_owned(), context), second.metrics.clone())
}

#[test]
fn seconds_of_a_registry_add_up_to_the_lifetime_totals() {
    for round in rounds() {
        Stress::new(round, false).run();
    }
}

#[test]
fn visited_seconds_of_a_registry_add_up_to_the_lifetime_totals() {
    for round in rounds() {
        Stress::new(round, true).run();
    }
}
