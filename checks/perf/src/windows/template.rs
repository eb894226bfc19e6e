//! Seconds of a process, recorded before a run: a simulated process delivers one of them in each
//! second.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leaparray::flow::Reason;
use leaparray::{
    Entry, EventCounts, HistogramConfig, ManualClock, NodeConfig, Outcome, Registry,
    RegistryConfig, Timestamp, TrafficType,
};
use leaparray_redis::engine::{FleetEngine, MemoryFleet};
use leaparray_redis::fleet::{
    Budget, Collector, FleetConfig, FleetCounts, FleetKeys, Outbox, ProcessId, ResourceKey,
    Undelivered,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, LogNormal, Poisson};

use super::case::Case;

/// The number of different seconds.
const TEMPLATES: u64 = 64;
const SEED: u64 = 24;
/// The second in which the templates are recorded.
const SECOND: u64 = 3_600;

/// The response times: their median in seconds, and the standard deviation of their logarithm.
const MEDIAN: f64 = 0.02;
const SIGMA: f64 = 1.0;
/// A longer one would end in the next second.
const LONGEST: f64 = 0.9;
/// Of all requests.
const FAILED: f64 = 0.01;
const REFUSED: f64 = 0.01;
/// Of the resources have a request in flight at the end of the second.
const IN_FLIGHT: f64 = 0.1;

/// A second, as a process delivers it.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) totals: EventCounts,
    pub(super) bytes: Vec<u8>,
    /// The time in which the process reads and encodes it.
    pub(super) elapsed: Duration,
}

impl Template {
    pub(super) fn at(&self, second: u64) -> Undelivered {
        let (totals, bytes) = (self.totals, self.bytes.clone());
        Undelivered { second, totals, bytes, unread: EventCounts::default() }
    }
}

/// Adds the names of the resources to an outbox, in the same order in each.
pub(super) fn add_names(outbox: &mut Outbox, keys: &[ResourceKey]) {
    let counts = keys.iter().map(|it| (it.clone(), FleetCounts::default()));
    outbox.encode(0, counts, usize::MAX);
}

/// Returns the names of the resources.
pub(super) fn keys(case: &Case) -> Vec<ResourceKey> {
    let key = |name: &String| ResourceKey::new(&name.as_str().into(), None, TrafficType::Inbound);
    names(case).iter().map(key).collect()
}

fn names(case: &Case) -> Vec<String> {
    (0..case.resources).map(|it| format!("GET /shops/{{shop}}/orders/{it}")).collect()
}

/// Records the seconds of a case.
pub(super) async fn all(
    case: &Case,
    keys: &[ResourceKey],
) -> Result<Vec<Template>, Box<dyn Error>> {
    let mut random = StdRng::seed_from_u64(SEED);
    let mut templates = Vec::new();
    for _ in 0..TEMPLATES {
        templates.push(template(case, keys, &mut random).await?);
    }
    Ok(templates)
}

async fn template(
    case: &Case,
    keys: &[ResourceKey],
    random: &mut StdRng,
) -> Result<Template, Box<dyn Error>> {
    let clock = ManualClock::new(Timestamp::from_secs(SECOND));
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    let registry = Registry::with_clock(RegistryConfig::default().node(node), clock.clone());
    let registry = Arc::new(registry);
    let share = case.budget.share(case.processes);
    let budget = Budget { process: share, fleet: usize::MAX };
    let now = Timestamp::from_secs(SECOND);
    let mut collector = Collector::new(Arc::clone(&registry), now, budget);
    let in_flight = record(case, &registry, random)?;
    clock.advance(Duration::from_secs(1));

    let config = FleetConfig::default();
    let mut outbox = Outbox::new(config, ProcessId(1), "template", SECOND, usize::MAX);
    add_names(&mut outbox, keys);
    let begin = Instant::now();
    collector.collect_into(Timestamp::from_secs(SECOND + 1), &mut outbox);
    let elapsed = begin.elapsed();
    drop(in_flight);

    let (engine, fleet) = (MemoryFleet::with_clock(clock), FleetKeys::new("template", &config)?);
    let now = (SECOND + 1) * 1_000_000;
    let mut seconds = Vec::new();
    while !outbox.is_done() {
        let delivery = outbox.delivery(now);
        seconds.extend(delivery.seconds.iter().map(|it| it.bytes.clone()));
        let receipt = engine.deliver(&fleet, &config, &delivery).await?;
        outbox.on_receipt(now, &receipt);
    }
    let bytes = seconds.pop().filter(|_| seconds.is_empty()).ok_or("not a single second")?;
    Ok(Template { totals: outbox.record().delivered.1, bytes, elapsed })
}

/// Records the requests of a second. Returns the entries that are in flight.
fn record(
    case: &Case,
    registry: &Registry<ManualClock>,
    random: &mut StdRng,
) -> Result<Vec<impl Sized + use<>>, Box<dyn Error>> {
    let times = LogNormal::new(MEDIAN.ln(), SIGMA)?;
    // By Zipf's law, the one of rank r has a share in proportion to 1 / r.
    let all: f64 = (1..=case.resources).map(|rank| 1.0 / rank as f64).sum();
    let most = case.requests * case.resources as f64 / all;
    let begin = Timestamp::from_secs(SECOND);
    let mut in_flight = Vec::new();
    for (name, rank) in names(case).iter().zip(1..) {
        let resource = registry.resource(name)?;
        let requests = Poisson::new(most / f64::from(rank))?;
        let count = requests.sample(random).max(1.0) as u64;
        for _ in 0..count {
            if random.random_bool(REFUSED) {
                resource.refuse(Reason::LimitReached);
                continue;
            }
            let time = f64::min(times.sample(random), LONGEST);
            let (entry, end) =
                (resource.enter_at(begin), begin.saturating_add(Duration::from_secs_f64(time)));
            if random.random_bool(FAILED) {
                entry.end_at(end, Outcome::Exception);
            } else {
                entry.end_at(end, Outcome::Success);
            }
        }
        if random.random_bool(IN_FLIGHT) {
            in_flight.push(Entry::enter(resource.clone()));
        }
    }
    Ok(in_flight)
}
