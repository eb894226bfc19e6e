//! A process and a server of the tests.

use std::sync::Arc;
use std::time::Duration;

use leaparray::{ManualClock, NodeConfig, Outcome, Registry, RegistryConfig, Timestamp};
use leaparray_redis::fleet::{
    Archive, Budget, Collector, Delivery, FleetConfig, FleetView, Outbox, ProcessId, Receipt,
    Record,
};

/// The second in which the tests begin.
pub(crate) const START: u64 = 1_000;

pub(crate) fn micros(second: u64) -> u64 {
    second * 1_000_000
}

/// A process with a registry.
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) clock: ManualClock,
    pub(crate) registry: Arc<Registry<ManualClock>>,
    pub(crate) collector: Collector<ManualClock>,
    pub(crate) outbox: Outbox,
}

impl Process {
    pub(crate) fn new(id: u64, second: u64) -> Self {
        Self::with(id, second, FleetConfig::default(), 1 << 20, 1 << 20)
    }

    pub(crate) fn with(
        id: u64,
        second: u64,
        config: FleetConfig,
        max_bytes: usize,
        max_waiting: usize,
    ) -> Self {
        let budget = Budget { process: max_bytes, fleet: usize::MAX };
        Self::with_budget(id, second, config, budget, max_waiting)
    }

    pub(crate) fn with_budget(
        id: u64,
        second: u64,
        config: FleetConfig,
        budget: Budget,
        max_waiting: usize,
    ) -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(second));
        let node = NodeConfig::default().with_histogram(leaparray::HistogramConfig::default());
        let registry = Registry::with_clock(RegistryConfig::default().node(node), clock.clone());
        let registry = Arc::new(registry);
        let now = Timestamp::from_secs(second);
        let collector = Collector::new(Arc::clone(&registry), now, budget);
        let name = format!("process-{id}");
        let outbox = Outbox::new(config, ProcessId(id), &name, second, max_waiting);
        Self { id: ProcessId(id), clock, registry, collector, outbox }
    }

    /// Admits requests that take a millisecond each.
    pub(crate) fn work(&self, resource: &str, requests: u64) {
        let resource = self.registry.resource(resource).unwrap();
        for _ in 0..requests {
            let begin = self.now();
            resource
                .enter_at(begin)
                .end_at(begin.saturating_add(Duration::from_millis(1)), Outcome::Success);
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        leaparray::Clock::now(&self.clock)
    }

    /// Moves to the next second, and reads the one before.
    pub(crate) fn next_second(&mut self) {
        self.clock.advance(Duration::from_secs(1));
        self.collect();
    }

    pub(crate) fn collect(&mut self) {
        self.collector.collect_into(self.now(), &mut self.outbox);
    }

    pub(crate) fn delivery(&mut self) -> Delivery {
        self.outbox.delivery(self.now().as_micros())
    }

    pub(crate) fn take(&mut self, receipt: &Receipt) -> bool {
        self.outbox.on_receipt(self.now().as_micros(), receipt)
    }

    /// Delivers all that waits to a server with the clock of the process.
    pub(crate) fn deliver(&mut self, server: &mut Archive) {
        let now = self.now().as_micros();
        self.deliver_at(server, now);
    }

    /// Delivers all that waits, at a time of the server.
    pub(crate) fn deliver_at(&mut self, server: &mut Archive, now: u64) {
        for _ in 0..100 {
            let delivery = self.delivery();
            let receipt = server.deliver(now, &delivery);
            if !self.take(&receipt) {
                return;
            }
        }
        panic!("no end: {:?}", self.outbox.record());
    }

    pub(crate) fn record(&self) -> Record {
        self.outbox.record()
    }
}

/// Reads all that the server has.
pub(crate) fn read(view: &mut FleetView, server: &mut Archive, now: u64) {
    view.on_survey(&server.survey(now));
    read_wanted(view, server, now);
}

pub(crate) fn read_wanted(view: &mut FleetView, server: &mut Archive, now: u64) {
    loop {
        loop {
            let wanted = view.wanted_names();
            if wanted.is_empty() {
                break;
            }
            let names = wanted.iter().map(|it| server.names(it.process, it.from, it.count));
            view.on_names(&wanted, &names.collect::<Vec<_>>());
        }
        let Some(fetch) = view.wanted() else { return };
        let found = server.second(now, fetch.second, &fetch.processes);
        view.on_fetched(&fetch, &found);
    }
}

/// Checks that each count of a record is in one place.
#[track_caller]
pub(crate) fn check(record: &Record) {
    let mut sum = record.unfinished();
    for part in [&record.delivered.1, &record.missed.1, &record.late, &record.waiting] {
        sum += part;
    }
    assert_eq!(sum, record.lifetime, "{record:?}");
}
