//! A fleet in simulated time: no second passes unless the test says so.

use std::sync::Arc;
use std::time::Duration;

use leaparray::{
    Clock, HistogramConfig, ManualClock, NodeConfig, Registry, RegistryConfig, Timestamp,
};
use leaparray_redis::FleetReader;
use leaparray_redis::engine::{FleetEngine, MemoryFleet};
use leaparray_redis::fleet::{Budget, Collector, FleetConfig, FleetKeys, Outbox, ProcessId};

/// The begin of the fleet, in seconds.
pub(crate) const START: u64 = 3_600;
const NAME: &str = "shop";

/// A fleet, and a reader of it.
pub(crate) struct Fleet {
    pub(crate) clock: ManualClock,
    pub(crate) reader: Arc<FleetReader>,
    engine: Arc<MemoryFleet<ManualClock>>,
    config: FleetConfig,
    keys: FleetKeys,
}

pub(crate) struct Process {
    pub(crate) registry: Arc<Registry<ManualClock>>,
    pub(crate) outbox: Outbox,
    collector: Collector<ManualClock>,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(START));
        let engine = Arc::new(MemoryFleet::with_clock(clock.clone()));
        let config = FleetConfig::default();
        let reader = FleetReader::builder(NAME).start(Arc::clone(&engine)).unwrap();
        let keys = FleetKeys::new(NAME, &config).unwrap();
        Self { clock, reader: Arc::new(reader), engine, config, keys }
    }

    /// Starts a process whose seconds have at most the bytes of `budget`.
    pub(crate) async fn join(&self, id: u64, budget: Budget) -> Process {
        let node = NodeConfig::default().with_histogram(HistogramConfig::default());
        let config = RegistryConfig::default().node(node);
        let registry = Arc::new(Registry::with_clock(config, self.clock.clone()));
        let now = self.clock.now();
        let collector = Collector::new(Arc::clone(&registry), now, budget);
        let (id, name) = (ProcessId(id), format!("orders-{id}"));
        let outbox = Outbox::new(self.config, id, &name, now.as_secs(), 4 << 20);
        let mut process = Process { registry, outbox, collector };
        self.deliver(&mut process).await;
        process
    }

    /// Delivers what is over.
    pub(crate) async fn deliver(&self, process: &mut Process) {
        let now = self.clock.now();
        process.collector.collect_into(now, &mut process.outbox);
        loop {
            let delivery = process.outbox.delivery(now.as_micros());
            let receipt = self.engine.deliver(&self.keys, &self.config, &delivery).await.unwrap();
            if !process.outbox.on_receipt(now.as_micros(), &receipt) {
                return;
            }
        }
    }

    /// Passes seconds, each of which the processes deliver.
    pub(crate) async fn pass(&self, seconds: u64, processes: &mut [&mut Process]) {
        for _ in 0..seconds {
            self.clock.advance(Duration::from_secs(1));
            for process in &mut *processes {
                self.deliver(process).await;
            }
        }
    }
}
