//! The collector, and how it is configured.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaparray::registry::SeriesReader;
use leaparray::{Clock, MonotonicClock, Registry};

use crate::bounds::Bounds;
use crate::reading::{Scrape, Spare};

/// A collector that exposes a [`Registry`] to Prometheus: a `Collector` of the crate
/// `prometheus-client`, of the crate `prometheus`, or of both, by the feature.
///
/// The limiters that the registry [watches](Registry::watch) are exposed with the label `limiter`.
///
/// A scrape reads the counters, the response times and the requests in flight of a resource one
/// after the other, so a concurrent request may be in one of them and not in the others. The next
/// scrape reuses the memory of the rows. Concurrent scrapes read one after another, and are then
/// written beside each other. A scrape never blocks recording.
///
/// ```
/// use leaparray::Registry;
/// use leaparray::flow::ConcurrencyLimiter;
/// use leaparray_prometheus::RegistryCollector;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let registry = Arc::new(Registry::new());
/// registry.watch("database", Arc::new(ConcurrencyLimiter::new(20)))?;
/// let collector = RegistryCollector::new(registry)
///     .buckets([5, 10, 25, 50, 100, 250, 500].map(Duration::from_millis))
///     .windows(true);
/// # #[cfg(feature = "prometheus")] {
/// use prometheus::core::Collector;
///
/// let families = collector.collect();
/// let limit = families.iter().find(|it| it.name() == "leaparray_limit").unwrap();
/// assert_eq!(limit.get_metric()[0].get_gauge().get_value(), 20.0);
/// # }
/// # let _ = collector;
/// # Ok::<_, leaparray::registry::WatchError>(())
/// ```
pub struct RegistryCollector<C = MonotonicClock> {
    registry: Arc<Registry<C>>,
    bounds: Bounds,
    windows: bool,
    series: Mutex<SeriesReader<C>>,
    spare: Spare,
    #[cfg(feature = "prometheus")]
    pub(crate) description: prometheus::core::Desc,
}

impl<C: Clock + Clone> RegistryCollector<C> {
    /// Creates a collector of all resources of `registry`, and of their contexts.
    #[must_use]
    pub fn new(registry: Arc<Registry<C>>) -> Self {
        Self {
            series: Mutex::new(registry.series()),
            spare: Spare::default(),
            registry,
            bounds: Bounds::default(),
            windows: false,
            #[cfg(feature = "prometheus")]
            description: description(),
        }
    }

    /// Chooses the upper bounds of the classic buckets of response times, in any order. The
    /// infinite bound is added.
    ///
    /// A bound acts as if it were the nearest bound of a bin of the resource's histogram, from
    /// which it differs by at most the histogram's [relative
    /// error](leaparray::HistogramConfig::relative_error). The default bounds are the powers of 2
    /// from 2⁻¹⁰ s, about 1 ms, to 2⁴ s, which are exact. If the histogram is changed, each
    /// response time stays in the bucket in which it was counted.
    ///
    /// A resource without a histogram has the infinite bound only.
    #[must_use]
    pub fn buckets(mut self, bounds: impl IntoIterator<Item = Duration>) -> Self {
        self.bounds = Bounds::new(bounds);
        self
    }

    /// Chooses whether rates and quantiles of the short and the long window are exposed, with the
    /// label `window`. The default is `false`: Prometheus derives rates and quantiles of any
    /// interval from counters and histograms.
    #[must_use]
    pub const fn windows(mut self, windows: bool) -> Self {
        self.windows = windows;
        self
    }

    /// Reads everything that is exposed.
    pub(crate) fn read(&self) -> Scrape<'_> {
        // Before the lock: this calls code of the user.
        let watched = self.registry.watched();
        self.spare.read(|reading| {
            reading.watched = watched;
            let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
            reading.read(&self.registry, &mut series, &self.bounds, self.windows);
        })
    }
}

impl<C> fmt::Debug for RegistryCollector<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryCollector")
            .field("registry", &self.registry)
            .field("bounds", &self.bounds)
            .field("windows", &self.windows)
            .finish_non_exhaustive()
    }
}

/// Returns a description that no other collector has.
#[cfg(feature = "prometheus")]
fn description() -> prometheus::core::Desc {
    use std::sync::atomic::{AtomicU64, Ordering};

    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the numbers only have to be distinct.
    let number = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let label = std::collections::HashMap::from([("collector".to_owned(), number)]);
    let help = "Identifies a collector of a registry";
    prometheus::core::Desc::new(
        "leaparray_collector".to_owned(),
        help.to_owned(),
        Vec::new(),
        label,
    )
    .expect("a valid name")
}
