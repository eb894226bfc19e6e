//! How a limiter is started.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaparray::Clock;

use super::away::{Reserve, ShareError, WhenAway};
use super::driver::Driver;
use super::shared::Shared;
use super::{Inner, LeasedLimiter};
use crate::clock::BootClock;
use crate::engine::Engine;
use crate::lease::{LeaseConfig, LeaseKeys, LeaseNameError, Node};
use crate::random;
use crate::runtime::NoRuntime;

/// The settings of a [`LeasedLimiter`], from [`LeasedLimiter::builder`].
#[derive(Clone, Debug)]
#[must_use = "the limiter is not started"]
pub struct LimiterBuilder<C = BootClock> {
    name: String,
    group: Option<String>,
    config: LeaseConfig,
    when_away: WhenAway,
    answer_timeout: Duration,
    clock: C,
}

impl LimiterBuilder {
    pub(super) fn new(name: &str, config: LeaseConfig) -> Self {
        let lease = config.bucket_len() * config.validity();
        Self {
            name: name.to_owned(),
            group: None,
            config,
            when_away: WhenAway::Closed,
            answer_timeout: lease.clamp(Duration::from_millis(100), Duration::from_secs(1)),
            clock: BootClock::new(),
        }
    }
}

impl<C: Clock + Clone + Send + Sync + 'static> LimiterBuilder<C> {
    /// Puts the limit into a [group](LeaseKeys::in_group): of limits that come and go, such as one
    /// for each client. A new one of a known group begins without a quarantine, and nothing of one
    /// that is not used stays on the server.
    pub fn in_group(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }

    /// Sets what becomes of requests while the server grants nothing. By default, they are refused.
    pub const fn with_when_away(mut self, when_away: WhenAway) -> Self {
        self.when_away = when_away;
        self
    }

    /// Sets for how long an answer is waited for. After that, the server counts as away until the
    /// next answer. By default, that is as long as a lease is valid, and from 100 ms to a second.
    pub const fn with_answer_timeout(mut self, timeout: Duration) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// Sets the clock. It must not go back, and must run while the machine is suspended. By
    /// default, it is a [`BootClock`].
    pub fn with_clock<D>(self, clock: D) -> LimiterBuilder<D> {
        let Self { name, group, config, when_away, answer_timeout, clock: _ } = self;
        LimiterBuilder { name, group, config, when_away, answer_timeout, clock }
    }

    /// Starts the limiter: a task of the current Tokio runtime asks `engine` for leases until the
    /// last clone of the limiter is dropped.
    ///
    /// # Errors
    ///
    /// Returns a [`StartError`] if the name of the limit is not valid, if a [`WhenAway::Share`]
    /// cannot be split, if the operating system gives no random number, or outside of a Tokio
    /// runtime with timers.
    pub fn start(self, engine: impl Engine) -> Result<LeasedLimiter<C>, StartError> {
        let runtime = crate::runtime::current()?;
        let (config, reserve) = match self.when_away {
            WhenAway::Closed | WhenAway::Open => (self.config, None),
            WhenAway::Share { part, processes } => {
                let split = Reserve::split(self.config, part, processes, self.clock.clone());
                let (config, reserve) = split.map_err(StartError::Share)?;
                (config, Some(reserve))
            }
        };
        let keys = match &self.group {
            Some(group) => LeaseKeys::in_group(group, &self.name, &config),
            None => LeaseKeys::new(&self.name, &config),
        };
        let keys = keys.map_err(StartError::Name)?;
        let number = random::exact().map_err(|_| StartError::NoRandomness)?;
        let node = Node::new(config, number);
        let is_open = self.when_away == WhenAway::Open;
        let answer_timeout = self.answer_timeout;
        let shared = Shared::new(keys, self.clock, node, is_open, reserve, answer_timeout);
        let shared = Arc::new(shared);
        let driver = Driver { shared: Arc::clone(&shared), engine, config, answer_timeout };
        let task = Mutex::new(Some(runtime.spawn(driver.run())));
        Ok(LeasedLimiter { inner: Arc::new(Inner { shared, task }) })
    }
}

/// Why a limiter could not be started.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum StartError {
    /// The name of the limit is not valid.
    Name(LeaseNameError),
    /// The limit cannot be shared.
    Share(ShareError),
    /// There is no Tokio runtime.
    NoRuntime,
    /// The Tokio runtime has no timers: it was built without `enable_time`.
    NoTimers,
    /// The operating system gave no random number.
    NoRandomness,
}

impl From<NoRuntime> for StartError {
    fn from(error: NoRuntime) -> Self {
        match error {
            NoRuntime::None => Self::NoRuntime,
            NoRuntime::NoTimers => Self::NoTimers,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Share(error) => error.fmt(f),
            Self::NoRuntime => f.write_str("a leased limiter has to be started in a Tokio runtime"),
            Self::NoTimers => {
                f.write_str("a leased limiter needs a Tokio runtime with timers: enable them")
            }
            Self::NoRandomness => f.write_str("the operating system gives no random numbers"),
        }
    }
}

impl Error for StartError {}
