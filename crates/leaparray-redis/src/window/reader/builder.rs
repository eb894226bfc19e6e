//! How a reader is started.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::driver::{Driver, polls};
use super::{FleetReader, Shared};
use crate::engine::FleetEngine;
use crate::fleet::{FleetConfig, FleetKeys, FleetView};
use crate::fork::Starter;
use crate::window::error::{FleetStartError, MIN_ANSWER_TIMEOUT, check_answer_timeout};
use crate::window::state::FleetState;

/// The settings of a [`FleetReader`], from [`FleetReader::builder`].
#[derive(Clone, Debug)]
#[must_use = "the reader is not started"]
pub struct FleetReaderBuilder {
    fleet: String,
    config: FleetConfig,
    period: Duration,
    answer_timeout: Duration,
}

impl FleetReaderBuilder {
    /// The shortest [period](Self::with_period), 10 ms.
    pub const MIN_PERIOD: Duration = Duration::from_millis(10);
    /// The shortest [time for an answer](Self::with_answer_timeout), 1 ms.
    pub const MIN_ANSWER_TIMEOUT: Duration = MIN_ANSWER_TIMEOUT;

    pub(super) fn new(fleet: &str) -> Self {
        let second = Duration::from_secs(1);
        Self {
            fleet: fleet.to_owned(),
            config: FleetConfig::default(),
            period: second,
            answer_timeout: second,
        }
    }

    /// Sets the settings of the fleet. All its processes and readers have the same ones.
    pub const fn with_config(mut self, config: FleetConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets how often the server is asked: the time from one poll to the next, from
    /// [`MIN_PERIOD`](Self::MIN_PERIOD) to the [`history`](FleetConfig::history) of the fleet,
    /// which [`start`](Self::start) checks. By default a second. A poll also reads for at most
    /// about this time, and the next poll continues. While no process delivers, the server is asked
    /// at least every third of [`lost_after`](FleetConfig::lost_after), so that the last seconds of
    /// the fleet become final. With a longer period than that third, this is the cost of a silent
    /// fleet: a survey every third of `lost_after`, for as long as it is silent. It has no end,
    /// since each later second becomes final as well, without a process in it, and a process that
    /// joins may fall silent before the next poll.
    pub const fn with_period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Sets for how long an answer is waited for: from
    /// [`MIN_ANSWER_TIMEOUT`](Self::MIN_ANSWER_TIMEOUT) to the [`history`](FleetConfig::history) of
    /// the fleet, which [`start`](Self::start) checks. By default a second.
    pub const fn with_answer_timeout(mut self, timeout: Duration) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// Starts the task, which ends when the reader is dropped.
    ///
    /// # Errors
    ///
    /// Returns a [`FleetStartError`] if the name of the fleet is not valid, if the period or the
    /// time for an answer is too short or too long, or if there is no runtime of Tokio
    /// with timers.
    pub fn start(self, engine: impl FleetEngine) -> Result<FleetReader, FleetStartError> {
        let keys = FleetKeys::new(&self.fleet, &self.config).map_err(FleetStartError::Name)?;
        self.check()?;
        let runtime = crate::runtime::current()?;
        let shared = Arc::new(Shared {
            keys,
            view: Mutex::new(FleetView::new(self.config)),
            starter: Starter::here(),
            state: watch::Sender::new(FleetState::Connecting),
            newest: watch::Sender::new(None),
        });
        let (poll, asked) = polls();
        let driver = Driver {
            shared: Arc::clone(&shared),
            engine,
            config: self.config,
            period: self.period,
            answer_timeout: self.answer_timeout,
            asked,
        };
        let task = runtime.spawn(driver.run());
        Ok(FleetReader { shared, task, poll })
    }

    fn check(&self) -> Result<(), FleetStartError> {
        // A reader that asks less often, or waits for longer, does not see each second before the
        // server forgets it.
        let max = Duration::from_secs(self.config.history().into());
        let (period, min) = (self.period, Self::MIN_PERIOD);
        if period < min || period > max {
            return Err(FleetStartError::Period { period, min, max });
        }
        check_answer_timeout(self.answer_timeout, max)
    }
}
