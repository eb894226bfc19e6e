//! The collector, and how it is configured.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaparray::flow::{
    AdaptiveBreaker, CircuitBreaker, CircuitState, Limiter, Quota, RandomSource,
};
use leaparray::{Clock, MonotonicClock, Registry};

use crate::bounds::Bounds;
use crate::reading::{Reading, Scrape};

type Read<T> = Box<dyn Fn() -> T + Send + Sync>;

/// A collector that exposes a [`Registry`] to Prometheus: a `Collector` of the crate
/// `prometheus-client`, of the crate `prometheus`, or of both, by the feature.
///
/// A scrape reads the counters, the response times and the requests in flight of a resource one
/// after the other, so a concurrent request may be in one of them and not in the others. The next
/// scrape reuses the memory of the rows. Concurrent scrapes run one after another. A scrape never
/// blocks recording.
///
/// ```
/// use leaparray::Registry;
/// use leaparray::flow::ConcurrencyLimiter;
/// use leaparray_prometheus::RegistryCollector;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let registry = Arc::new(Registry::new());
/// let collector = RegistryCollector::new(registry)
///     .buckets([5, 10, 25, 50, 100, 250, 500].map(Duration::from_millis))
///     .windows(true)
///     .limiter("database", Arc::new(ConcurrencyLimiter::new(20)));
/// # #[cfg(feature = "prometheus")] {
/// use prometheus::core::Collector;
///
/// let families = collector.collect();
/// let limit = families.iter().find(|it| it.name() == "leaparray_limit").unwrap();
/// assert_eq!(limit.get_metric()[0].get_gauge().get_value(), 20.0);
/// # }
/// # let _ = collector;
/// ```
pub struct RegistryCollector<C = MonotonicClock> {
    registry: Arc<Registry<C>>,
    bounds: Bounds,
    windows: bool,
    limiters: BTreeMap<String, Read<Option<Quota>>>,
    breakers: BTreeMap<String, Read<f64>>,
    circuits: BTreeMap<String, Read<CircuitState>>,
    reading: Mutex<Reading<C>>,
    #[cfg(feature = "prometheus")]
    pub(crate) description: prometheus::core::Desc,
}

impl<C: Clock + Clone> RegistryCollector<C> {
    /// Creates a collector of all resources of `registry`, and of their contexts.
    #[must_use]
    pub fn new(registry: Arc<Registry<C>>) -> Self {
        Self {
            reading: Mutex::new(Reading::new(&registry)),
            registry,
            bounds: Bounds::default(),
            windows: false,
            limiters: BTreeMap::new(),
            breakers: BTreeMap::new(),
            circuits: BTreeMap::new(),
            #[cfg(feature = "prometheus")]
            description: crate::protobuf::description(),
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

    /// Exposes the limit and the remaining permits of a limiter, with the label `limiter`. A
    /// limiter that has no [quota](Limiter::quota) has no samples. A limiter with the same name is
    /// replaced.
    #[must_use]
    pub fn limiter<L>(mut self, name: impl Into<String>, limiter: L) -> Self
    where
        L: Limiter + Send + Sync + 'static,
    {
        self.limiters.insert(name.into(), Box::new(move || limiter.quota()));
        self
    }

    /// Exposes the probability with which a breaker refuses requests, with the label `breaker`: 0
    /// while it admits every request. A breaker with the same name is replaced.
    #[must_use]
    pub fn breaker<D, R>(
        mut self,
        name: impl Into<String>,
        breaker: Arc<AdaptiveBreaker<D, R>>,
    ) -> Self
    where
        D: Clock + Clone + Send + Sync + 'static,
        R: RandomSource + Send + Sync + 'static,
    {
        self.breakers.insert(name.into(), Box::new(move || breaker.drop_probability()));
        self
    }

    /// Exposes the state of a circuit breaker, with the labels `breaker` and `state`: 1 for the
    /// present state, and 0 for all others. A circuit breaker with the same name is replaced.
    ///
    /// A scrape shows the state at its time. To see each transition, read
    /// [`CircuitBreaker::transitions`].
    #[must_use]
    pub fn circuit_breaker<D, R>(
        mut self,
        name: impl Into<String>,
        breaker: Arc<CircuitBreaker<D, R>>,
    ) -> Self
    where
        D: Clock + Send + Sync + 'static,
        R: RandomSource + Send + Sync + 'static,
    {
        self.circuits.insert(name.into(), Box::new(move || breaker.state()));
        self
    }

    /// Reads everything that is exposed.
    pub(crate) fn read(&self) -> Scrape<'_, C> {
        // Before the lock: this is the user's code, which may panic.
        let limits = self.limiters.iter().filter_map(|(name, quota)| Some((name, quota()?)));
        let limits: Vec<_> = limits.map(|(name, quota)| (name.clone(), quota)).collect();
        let breakers =
            self.breakers.iter().map(|(name, probability)| (name.clone(), probability()));
        let breakers = breakers.collect();
        let circuits = self.circuits.iter().map(|(name, state)| (name.clone(), state()));
        let circuits = circuits.collect();
        // The reading of a scrape that has panicked was cleared.
        let mut scrape = Scrape(self.reading.lock().unwrap_or_else(PoisonError::into_inner));
        scrape.limits = limits;
        scrape.breakers = breakers;
        scrape.circuits = circuits;
        scrape.read(&self.registry, &self.bounds, self.windows);
        scrape
    }
}

impl<C> fmt::Debug for RegistryCollector<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryCollector")
            .field("registry", &self.registry)
            .field("bounds", &self.bounds)
            .field("windows", &self.windows)
            .field("limiters", &self.limiters.keys())
            .field("breakers", &self.breakers.keys())
            .field("circuits", &self.circuits.keys())
            .finish_non_exhaustive()
    }
}
