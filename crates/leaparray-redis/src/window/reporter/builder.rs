//! How a reporter is started.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaparray::{Clock, Registry};
use tokio::sync::{Notify, watch};

use super::driver::Driver;
use super::{FleetReporter, Shared};
use crate::engine::FleetEngine;
use crate::fleet::{Budget, Collector, FleetConfig, FleetKeys, Outbox, ProcessId};
use crate::fork::Starter;
use crate::random;
use crate::window::error::{FleetStartError, MIN_ANSWER_TIMEOUT, check_answer_timeout};
use crate::window::state::FleetState;

/// The shortest long window of a registry, in seconds.
const MIN_WINDOW: u64 = 10;

/// The settings of a [`FleetReporter`], from [`FleetReporter::builder`].
#[derive(Clone, Debug)]
#[must_use = "the reporter is not started"]
pub struct FleetReporterBuilder {
    fleet: String,
    process: String,
    config: FleetConfig,
    budget: Budget,
    max_waiting_bytes: usize,
    answer_timeout: Duration,
}

impl FleetReporterBuilder {
    /// The fewest [bytes of the seconds that wait](Self::with_max_waiting_bytes), 64 KiB.
    pub const MIN_WAITING_BYTES: usize = 64 << 10;
    /// The most [bytes of the seconds that wait](Self::with_max_waiting_bytes), 1 GiB.
    pub const MAX_WAITING_BYTES: usize = 1 << 30;
    /// The longest name of a process, in bytes.
    pub const MAX_PROCESS_NAME_LEN: usize = 256;
    /// The shortest [time for an answer](Self::with_answer_timeout), 1 ms.
    pub const MIN_ANSWER_TIMEOUT: Duration = MIN_ANSWER_TIMEOUT;

    pub(super) fn new(fleet: &str, process: &str) -> Self {
        Self {
            fleet: fleet.to_owned(),
            process: process.to_owned(),
            config: FleetConfig::default(),
            budget: Budget::default(),
            max_waiting_bytes: 4 << 20,
            answer_timeout: Duration::from_secs(1),
        }
    }

    /// Sets the settings of the fleet. All its processes and readers have the same ones.
    pub const fn with_config(mut self, config: FleetConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets how many bytes the rows of a second may take. By default 32 KiB, and 32 MiB in all
    /// processes of the fleet together, which all have the same budget.
    pub const fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets how many bytes the seconds may take that wait for the server. Beyond them, the oldest
    /// are dropped, and counted as missed. By default 4 MiB.
    ///
    /// The lowest number is [`MIN_WAITING_BYTES`](Self::MIN_WAITING_BYTES), or twice the bytes of a
    /// second of a process that is alone by the [budget](Self::with_budget), 256 more for each
    /// included, if these are more: one second is sent while the next one is read, and a second
    /// that finds no room is missed. The highest is [`MAX_WAITING_BYTES`](Self::MAX_WAITING_BYTES).
    /// [`start`](Self::start) checks both.
    pub const fn with_max_waiting_bytes(mut self, bytes: usize) -> Self {
        self.max_waiting_bytes = bytes;
        self
    }

    /// Sets for how long an answer is waited for: from
    /// [`MIN_ANSWER_TIMEOUT`](Self::MIN_ANSWER_TIMEOUT) to [`lost_after`](FleetConfig::lost_after),
    /// which [`start`](Self::start) checks. By default a second.
    pub const fn with_answer_timeout(mut self, timeout: Duration) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// Starts the task, which ends when the reporter is closed or dropped.
    ///
    /// # Errors
    ///
    /// Returns a [`FleetStartError`] if the name of the fleet is not valid, if the time for an
    /// answer or the bytes that wait are too few or too many, if the name of the process is
    /// too long, if there is no runtime of Tokio with timers or no random number of the operating
    /// system, or if the long window of the registry has less than 10 seconds.
    pub fn start<C, E>(
        self,
        registry: &Arc<Registry<C>>,
        engine: E,
    ) -> Result<FleetReporter, FleetStartError>
    where
        C: Clock + Clone + Send + Sync + 'static,
        E: FleetEngine,
    {
        let keys = FleetKeys::new(&self.fleet, &self.config).map_err(FleetStartError::Name)?;
        self.check()?;
        let runtime = crate::runtime::current()?;
        let seconds = registry.config().long().interval().as_secs();
        if seconds < MIN_WINDOW {
            return Err(FleetStartError::ShortWindow { seconds, min: MIN_WINDOW });
        }
        let process = ProcessId(random::number().map_err(|_| FleetStartError::NoRandomness)?);
        let now = registry.clock().now();
        let outbox =
            Outbox::new(self.config, process, &self.process, now.as_secs(), self.max_waiting_bytes);
        let shared = Arc::new(Shared {
            keys,
            starter: Starter::here(),
            process: AtomicU64::new(process.0),
            record: Mutex::new(outbox.record()),
            state: watch::Sender::new(FleetState::Connecting),
            close: Notify::new(),
        });
        let driver = Driver {
            shared: Arc::clone(&shared),
            engine,
            config: self.config,
            answer_timeout: self.answer_timeout,
            clock: registry.clock().clone(),
        };
        let collector = Collector::new(Arc::clone(registry), now, self.budget);
        let task = runtime.spawn(driver.run(collector, outbox));
        Ok(FleetReporter { shared, task: Mutex::new(Some(task)) })
    }

    fn check(&self) -> Result<(), FleetStartError> {
        let (len, max) = (self.process.len(), Self::MAX_PROCESS_NAME_LEN);
        if len > max {
            return Err(FleetStartError::ProcessName { len, max });
        }
        let max = Self::MAX_WAITING_BYTES;
        let second = self.budget.share(1).saturating_add(Budget::OVERHEAD);
        let two_seconds = second.saturating_mul(2);
        let (bytes, min) =
            (self.max_waiting_bytes, two_seconds.clamp(Self::MIN_WAITING_BYTES, max));
        if bytes < min || bytes > max {
            return Err(FleetStartError::WaitingBytes { bytes, min, max });
        }
        // A process that waits for longer counts as lost.
        let lost_after = Duration::from_micros(self.config.lost_after_micros());
        check_answer_timeout(self.answer_timeout, lost_after)
    }
}
