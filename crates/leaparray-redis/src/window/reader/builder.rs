//! How a reader is started.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::driver::{Driver, polls};
use super::{FleetReader, Shared};
use crate::engine::FleetEngine;
use crate::fleet::{FleetConfig, FleetKeys, FleetView};
use crate::window::error::FleetStartError;
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

    /// Sets how often the server is asked. By default once a second.
    pub const fn with_period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Sets for how long an answer is waited for. By default a second.
    pub const fn with_answer_timeout(mut self, timeout: Duration) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// Starts the task, which ends when the reader is dropped.
    ///
    /// # Errors
    ///
    /// Returns a [`FleetStartError`] if the name of the fleet is not valid, or if there is no runtime of Tokio.
    pub fn start(self, engine: impl FleetEngine) -> Result<FleetReader, FleetStartError> {
        let keys = FleetKeys::new(&self.fleet, &self.config).map_err(FleetStartError::Name)?;
        let runtime = Handle::try_current().map_err(|_| FleetStartError::NoRuntime)?;
        let shared = Arc::new(Shared {
            keys,
            view: Mutex::new(FleetView::new(self.config)),
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
}
