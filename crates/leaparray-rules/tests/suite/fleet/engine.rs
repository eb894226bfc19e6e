//! Processes in simulated time, which the runtime advances when all tasks wait, and their server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leaparray::{Clock, Registry, RegistryConfig, Timestamp};
use leaparray_redis::lease::{Answer, Ask, LeaseConfig, LeaseKeys};
use leaparray_redis::{Engine, EngineError, MemoryEngine};
use leaparray_rules::{Changes, Fleet, RuleSet, Rules};
use tokio::time::{Instant, sleep};

/// The time of a runtime whose time is paused, from an hour on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Simulated(Instant, Duration);

impl Simulated {
    pub(crate) fn start() -> Self {
        Self(Instant::now(), Duration::from_secs(3_600))
    }

    /// Returns the same clock with another origin.
    pub(crate) fn from(self, origin: Duration) -> Self {
        Self(self.0, origin)
    }
}

impl Clock for Simulated {
    fn now(&self) -> Timestamp {
        Timestamp::MIN.saturating_add(self.1).saturating_add(self.0.elapsed())
    }
}

/// A server with a round trip of 10 ms.
#[derive(Clone, Debug)]
pub(crate) struct Server(Arc<State>);

#[derive(Debug)]
struct State {
    engine: MemoryEngine<Simulated>,
    is_away: AtomicBool,
    asks: AtomicU64,
}

impl Server {
    pub(crate) fn start(clock: Simulated) -> Self {
        let engine = MemoryEngine::with_clock(clock);
        Self(Arc::new(State { engine, is_away: AtomicBool::new(false), asks: AtomicU64::new(0) }))
    }

    pub(crate) fn set_away(&self, is_away: bool) {
        self.0.is_away.store(is_away, Ordering::Relaxed);
    }

    pub(crate) fn asks(&self) -> u64 {
        self.0.asks.load(Ordering::Relaxed)
    }
}

impl Engine for Server {
    async fn lease(
        &self,
        keys: &LeaseKeys,
        config: &LeaseConfig,
        ask: &Ask,
    ) -> Result<Answer, EngineError> {
        self.0.asks.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(5)).await;
        if self.0.is_away.load(Ordering::Relaxed) {
            return Err(EngineError::Server("connection refused".into()));
        }
        let answer = self.0.engine.lease(keys, config, ask).await;
        sleep(Duration::from_millis(5)).await;
        answer
    }
}

/// Returns the rules of a process.
pub(crate) fn process(clock: Simulated, server: &Server) -> Rules<Simulated> {
    let fleet = Fleet::new("shop", server.clone()).unwrap().with_clock(clock);
    fleet.rules(Arc::new(Registry::with_clock(RegistryConfig::default(), clock)))
}

/// Returns the rule `r` for the resource `a`.
pub(crate) fn file(limiter: &str) -> RuleSet {
    let text = format!("[[rule]]\nname = \"r\"\nresource = \"a\"\n{limiter}\n");
    RuleSet::parse(&text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the rule with 10 buckets of 100 ms: the quarantine takes 1.7 s.
pub(crate) fn limit(limit: u64, away: &str) -> RuleSet {
    file(&format!("limit = \"{limit} per second\"\nbuckets = 10\nover = \"fleet\"\n{away}"))
}

pub(crate) fn is_admitted<C: leaparray_rules::RuleClock>(rules: &Rules<C>) -> bool {
    rules.enter("a", ()).unwrap().is_admitted()
}

/// Asks each millisecond. Returns the number of requests that are admitted.
pub(crate) async fn admitted(all: &[&Rules<Simulated>], time: Duration) -> u64 {
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < time {
        count += all.iter().filter(|it| is_admitted(it)).count() as u64;
        sleep(Duration::from_millis(1)).await;
    }
    count
}

/// Returns the names of the rules that were added, changed, begun anew and removed.
pub(crate) fn names(changes: &Changes) -> [Vec<&str>; 4] {
    let Changes { added, changed, begun_anew, removed, .. } = changes;
    [added, changed, begun_anew, removed].map(|it| it.iter().map(|name| &**name).collect())
}
