//! A limit over a fleet: plain data.

use std::fmt;
use std::sync::LazyLock;

use leaparray_redis::lease::{LeaseConfig, LeaseConfigError};
use leaparray_redis::{LeasedLimiter, MemoryEngine, WhenAway};
use tokio::runtime::{Builder, Handle};

use crate::quantity::Per;

/// A limit of the requests of all processes of a [`Fleet`](crate::Fleet) together.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FleetLimit {
    /// The requests of an interval.
    pub rate: Per,
    /// The number of buckets of the window, which then has the length of the interval: see
    /// [`LeaseConfig::of_buckets`]. `None` for a limit that holds in any interval.
    pub buckets: Option<usize>,
    /// The decision on a request without a lease while the server is away.
    pub away: WhenAway,
}

/// A runtime that has ended. A limiter can be started in it, and does nothing.
static ENDED: LazyLock<Option<Handle>> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_time().build().ok()?;
    let handle = runtime.handle().clone();
    // In an asynchronous function, a runtime must not be dropped in another way.
    runtime.shutdown_background();
    Some(handle)
});

impl FleetLimit {
    pub(crate) const fn new(rate: Per, buckets: Option<usize>, away: WhenAway) -> Self {
        Self { rate, buckets, away }
    }

    /// Returns the parameters of the leases.
    pub(crate) fn config(&self) -> Result<LeaseConfig, LeaseConfigError> {
        let Per { count, interval } = self.rate;
        match self.buckets {
            None => LeaseConfig::new(count, interval),
            Some(buckets) => {
                let buckets = u32::try_from(buckets).unwrap_or(u32::MAX);
                LeaseConfig::of_buckets(count, buckets, interval)
            }
        }
    }

    /// Returns why no limiter can be made, if none can.
    pub(crate) fn check(&self) -> Result<(), String> {
        let config = self.config().map_err(|error| error.to_string())?;
        let Some(ended) = &*ENDED else { return Ok(()) };
        let _entered = ended.enter();
        let limiter = LeasedLimiter::builder("checked", config).with_when_away(self.away);
        limiter.start(MemoryEngine::new()).map(drop).map_err(|error| error.to_string())
    }

    /// See [`Limit::strictest`](crate::limit::Limit::strictest).
    pub(crate) fn strictest(&self, new: &Self) -> Option<Self> {
        let geometry = |it: &Self| (it.rate.interval, it.buckets);
        if geometry(self) != geometry(new) {
            return None;
        }
        let openness = |it: &Self| match it.away {
            WhenAway::Open => 2,
            WhenAway::Share { .. } => 1,
            _ => 0,
        };
        let away = if openness(new) < openness(self) { new.away } else { self.away };
        Some(Self { rate: self.rate.slower(new.rate), away, ..self.clone() })
    }
}

impl fmt::Display for FleetLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit = \"{}\"", self.rate)?;
        if let Some(buckets) = self.buckets {
            write!(f, "\nbuckets = {buckets}")?;
        }
        f.write_str("\nover = \"fleet\"")?;
        match self.away {
            WhenAway::Open => f.write_str("\naway = \"open\""),
            WhenAway::Share { part, processes } => {
                write!(f, "\naway = {{ part = {part:?}, processes = {processes} }}")
            }
            _ => Ok(()),
        }
    }
}
