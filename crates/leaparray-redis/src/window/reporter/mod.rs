//! The reporter: delivers the seconds of a process.

mod builder;
mod driver;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::state::FleetState;
use crate::fleet::{FleetKeys, ProcessId, Record};
use crate::fork::Starter;

pub use builder::FleetReporterBuilder;

/// Delivers each finished second of a registry to a fleet, once.
///
/// A task reads the registry after each second, and sends what it has found. While the server is
/// away, the seconds wait, up to [a number of bytes](FleetReporterBuilder::with_max_waiting_bytes)
/// and until their [deadline](crate::fleet::FleetConfig::delivery); dropped seconds are counted as
/// missed. No thread that records waits for anything.
///
/// A process has rows for up to 16,384 names of resources and contexts in its life, and in each
/// second for as many as the [budget](crate::fleet::Budget) has room. All others are in the totals.
///
/// Start it before the requests, and close it after the last one: what was recorded in seconds
/// before the start belongs to no second, and what is recorded after [`close`](Self::close) is not
/// delivered. When a reporter is dropped, its process counts as lost a few seconds later.
///
/// ```
/// use leaparray::MetricEvent::Success;
/// use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
/// use leaparray_redis::engine::MemoryFleet;
/// use leaparray_redis::{FleetReader, FleetReporter};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let registry = Arc::new(Registry::new());
/// let engine = Arc::new(MemoryFleet::new());
/// let builder = FleetReporter::builder("shop", "orders-1");
/// let reporter = builder.start(&registry, Arc::clone(&engine))?;
/// registry.resource("GET /orders")?.enter().success();
/// let record = reporter.close().await;
/// assert_eq!((record.delivered.1[Success], record.lifetime[Success]), (1, 1));
///
/// let reader = FleetReader::builder("shop").start(engine)?;
/// reader.poll().await?;
/// let window = reader.with(|fleet| fleet.window(record.first..record.next));
/// assert_eq!(window.total.metrics.counts[Success], 1);
/// assert_eq!(window.presence.to_string(), "1 of 1 process");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct FleetReporter {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// The state that the task and its handle share.
#[derive(Debug)]
struct Shared {
    keys: FleetKeys,
    starter: Starter,
    /// The identity of the process in the fleet.
    process: AtomicU64,
    record: Mutex<Record>,
    state: watch::Sender<FleetState>,
    /// Wakes the task when the reporter is closed.
    close: Notify,
}

impl FleetReporter {
    /// Returns the settings of a reporter for the fleet `fleet`, in the process `process`. Several
    /// processes may have one name.
    pub fn builder(fleet: &str, process: &str) -> FleetReporterBuilder {
        FleetReporterBuilder::new(fleet, process)
    }

    /// Returns the identity of this process in the fleet. If another process delivers under it, as
    /// a clone from a snapshot does, one of the two takes another identity, and counts that in
    /// [`Record::taken`].
    #[must_use]
    pub fn process(&self) -> ProcessId {
        ProcessId(self.shared.process.load(Ordering::Relaxed))
    }

    /// Returns the keys of the fleet on the server.
    #[must_use]
    pub fn keys(&self) -> &FleetKeys {
        &self.shared.keys
    }

    /// Returns the record of the process, as of the last reading of its registry: how many seconds
    /// were delivered and missed, and where each count is.
    #[must_use]
    pub fn record(&self) -> Record {
        self.shared.record()
    }

    /// Returns whether the reporter reaches the server.
    #[must_use]
    pub fn state(&self) -> FleetState {
        self.shared.state()
    }

    /// Returns the state and its changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<FleetState> {
        self.shared.state.subscribe()
    }

    /// Waits for the end of the current second, delivers it, and says that the process leaves the
    /// fleet. Returns the record: what was not delivered is [waiting](Record::waiting).
    ///
    /// It takes about a second. While the server is away, it takes up to three
    /// [timeouts](FleetReporterBuilder::with_answer_timeout) more. If the clock of the process is
    /// ahead of the server's by more than the [grace](crate::fleet::FleetConfig::grace), the server
    /// does not take the last seconds yet, and this tries for
    /// [`lost_after`](crate::fleet::FleetConfig::lost_after). In a [forked
    /// child](FleetState::Forked), returns at once: the record belongs to the parent.
    pub async fn close(&self) -> Record {
        if self.shared.starter.is_elsewhere() {
            return self.record();
        }
        self.shared.close.notify_one();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        match task {
            Some(task) => drop(task.await),
            None => drop(self.watch().wait_for(|it| *it == FleetState::Closed).await),
        }
        self.record()
    }
}

impl Shared {
    fn state(&self) -> FleetState {
        if self.starter.is_elsewhere() {
            return FleetState::Forked;
        }
        self.state.borrow().clone()
    }

    fn record(&self) -> Record {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_record(&self, record: Record) {
        *self.record.lock().unwrap_or_else(PoisonError::into_inner) = record;
    }
}

impl Drop for FleetReporter {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

impl fmt::Debug for FleetReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetReporter")
            .field("fleet", &self.shared.keys.name())
            .field("process", &self.process())
            .finish_non_exhaustive()
    }
}
