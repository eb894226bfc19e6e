//! One clock for all parts of a service.

use std::time::Duration;

use crate::flow::adaptive::LimitAlgorithm;
use crate::flow::breaker::AdaptiveBreakerConfig;
use crate::flow::{
    AdaptiveBreaker, AdaptiveLimiter, CircuitBreaker, CircuitConfig, FixedWindowLimiter,
    LeakyBucket, LimitError, Rate, SlidingWindowLimiter, TokenBucket, WarmUp, WarmUpConfig,
};
use crate::histogram::HistogramConfig;
use crate::node::{NodeConfig, ResourceNode};
use crate::registry::{Registry, RegistryConfig};
use crate::rolling_window::{Rolling, RollingWindow};
use crate::time::{Clock, MonotonicClock, WindowConfig};
use crate::window::SlidingWindow;

/// A clock, and the constructors of the parts that read it: registries, nodes, windows, limiters
/// and breakers.
///
/// Each method calls the `with_clock` of its part with a clone of the clock, and changes nothing
/// else. Parts with clocks of their own may differ: two [`MonotonicClock`]s differ if the time of
/// day is set between their creation, so that a pass may be counted in another bucket than the one
/// in which its permit was taken. In a test, one [`ManualClock`](crate::ManualClock) then sets the
/// time of all parts.
///
/// A [`ConcurrencyLimiter`](crate::flow::ConcurrencyLimiter) has no clock. For a breaker with
/// another source of random numbers, pass a clone of the [clock](Self::clock) to
/// [`AdaptiveBreaker::with_source`].
///
/// ```
/// use leaparray::flow::{CircuitConfig, Limiter, LimiterExt, Rate, WarmUpConfig};
/// use leaparray::flow::adaptive::Headroom;
/// use leaparray::flow::breaker::AdaptiveBreakerConfig;
/// use leaparray::{
///     Clock, ManualClock, NodeConfig, RegistryConfig, Timeline, Timestamp, WindowConfig,
/// };
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let timeline = Timeline::with_clock(clock.clone());
/// let second = WindowConfig::new(10, Duration::from_secs(1))?;
/// let rate = Rate::new(100, Duration::from_secs(1))?;
///
/// let registry = timeline.registry(RegistryConfig::default());
/// let node = timeline.node(NodeConfig::default());
/// let window = timeline.window(second);
/// let rolling = timeline.rolling_window::<u64>(second);
/// let breaker = timeline.adaptive_breaker(AdaptiveBreakerConfig::default());
/// let circuit = timeline.circuit_breaker(CircuitConfig::default());
/// let adaptive = timeline.adaptive_limiter(Headroom::default());
/// let limiters: [Box<dyn Limiter<Permit = ()>>; 5] = [
///     Box::new(timeline.token_bucket(rate, 20)),
///     Box::new(timeline.leaky_bucket(rate, Duration::from_millis(500))),
///     Box::new(timeline.fixed_window_limiter(Duration::from_secs(60), 1_000)?),
///     Box::new(timeline.sliding_window_limiter(Duration::from_secs(1), 100)?),
///     Box::new(timeline.warm_up(second, 100, WarmUpConfig::default())?),
/// ];
///
/// clock.advance(Duration::from_secs(1));
/// let now = Timestamp::from_secs(61);
/// for clock in [registry.clock(), node.clock(), window.clock(), rolling.clock()] {
///     assert_eq!(clock.now(), now);
/// }
/// for clock in [breaker.clock(), circuit.clock(), adaptive.clock()] {
///     assert_eq!(clock.now(), now);
/// }
/// assert!(limiters.iter().all(|limiter| limiter.account().now() == now));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timeline<C = MonotonicClock> {
    clock: C,
}

impl Timeline {
    /// Creates a timeline with a [`MonotonicClock`] of its own.
    ///
    /// ```
    /// use leaparray::{RegistryConfig, Timeline};
    ///
    /// let timeline = Timeline::new();
    /// let registry = timeline.registry(RegistryConfig::default());
    /// registry.resource("GET /orders")?.enter().success();
    /// assert_eq!(registry.len(), 1);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(MonotonicClock::new())
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> Timeline<C> {
    /// Creates a timeline of that clock. Clones of the clock must show one time, as those of each
    /// clock of this crate do.
    #[must_use]
    pub const fn with_clock(clock: C) -> Self {
        Self { clock }
    }

    /// Returns the clock. All parts read clones of it.
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}

impl<C: Clone> Registry<C> {
    /// Returns the timeline of this registry's clock, whose limiters and breakers decide at the
    /// times of the registry.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray::flow::{LimiterExt, Rate};
    ///
    /// let registry = Registry::new();
    /// let limiter = registry.timeline().token_bucket(Rate::per_minute(1)?, 1);
    /// limiter.try_enter(&*registry.resource("GET /orders")?)?.success();
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn timeline(&self) -> Timeline<C> {
        Timeline::with_clock(self.clock().clone())
    }
}

impl<C: Clock + Clone> Timeline<C> {
    /// Creates an empty registry: [`Registry::with_clock`].
    #[must_use]
    pub fn registry(&self, config: RegistryConfig) -> Registry<C> {
        Registry::with_clock(config, self.clock.clone())
    }

    /// Creates a node: [`ResourceNode::with_clock`].
    #[must_use]
    pub fn node(&self, config: NodeConfig) -> ResourceNode<C> {
        ResourceNode::with_clock(config, self.clock.clone())
    }

    /// Creates a window over a new array: [`SlidingWindow::with_clock`].
    #[must_use]
    pub fn window(&self, config: WindowConfig) -> SlidingWindow<C> {
        SlidingWindow::with_clock(config, self.clock.clone())
    }

    /// Creates a window over a new array, with a histogram of the response times:
    /// [`SlidingWindow::with_histogram`].
    #[must_use]
    pub fn window_with_histogram(
        &self,
        config: WindowConfig,
        histogram: HistogramConfig,
    ) -> SlidingWindow<C> {
        SlidingWindow::with_histogram(config, histogram, self.clock.clone())
    }

    /// Creates a window of values of the type `T`: [`RollingWindow::with_clock`].
    #[must_use]
    pub fn rolling_window<T: Rolling>(&self, config: WindowConfig) -> RollingWindow<T, C> {
        RollingWindow::with_clock(config, self.clock.clone())
    }

    /// Creates a bucket of `capacity` tokens, the size of a burst: [`TokenBucket::with_clock`].
    #[must_use]
    pub fn token_bucket(&self, rate: Rate, capacity: u64) -> TokenBucket<C> {
        TokenBucket::with_clock(rate, capacity, self.clock.clone())
    }

    /// Creates a bucket in which a request waits at most `max_wait`: [`LeakyBucket::with_clock`].
    #[must_use]
    pub fn leaky_bucket(&self, rate: Rate, max_wait: Duration) -> LeakyBucket<C> {
        LeakyBucket::with_clock(rate, max_wait, self.clock.clone())
    }

    /// Creates a limiter of `limit` permits in each interval: [`FixedWindowLimiter::with_clock`].
    ///
    /// # Errors
    ///
    /// Returns a [`LimitError`] if the interval is invalid or the limit is too high, as
    /// [`FixedWindowLimiter::new`] does.
    pub fn fixed_window_limiter(
        &self,
        interval: Duration,
        limit: u64,
    ) -> Result<FixedWindowLimiter<C>, LimitError> {
        FixedWindowLimiter::with_clock(interval, limit, self.clock.clone())
    }

    /// Creates a limiter of `limit` permits in any interval of that length:
    /// [`SlidingWindowLimiter::with_clock`].
    ///
    /// # Errors
    ///
    /// Returns a [`LimitError`] if the interval is invalid or the limit is too high, as
    /// [`SlidingWindowLimiter::new`] does.
    pub fn sliding_window_limiter(
        &self,
        interval: Duration,
        limit: u64,
    ) -> Result<SlidingWindowLimiter<C>, LimitError> {
        SlidingWindowLimiter::with_clock(interval, limit, self.clock.clone())
    }

    /// Creates a limiter of `limit` permits in any window of buckets:
    /// [`SlidingWindowLimiter::of_buckets_with_clock`].
    ///
    /// # Errors
    ///
    /// Returns a [`LimitError`] if the limit is above the
    /// [maximum](SlidingWindowLimiter::max_limit).
    pub fn bucket_window_limiter(
        &self,
        config: WindowConfig,
        limit: u64,
    ) -> Result<SlidingWindowLimiter<C>, LimitError> {
        SlidingWindowLimiter::of_buckets_with_clock(config, limit, self.clock.clone())
    }

    /// Creates a limiter of `limit` permits in any window when the service is warm, and fewer when
    /// it is cold: [`WarmUp::with_clock`].
    ///
    /// # Errors
    ///
    /// Returns a [`LimitError`] if the limit is zero, or above the
    /// [maximum](SlidingWindowLimiter::max_limit).
    pub fn warm_up(
        &self,
        window: WindowConfig,
        limit: u64,
        config: WarmUpConfig,
    ) -> Result<WarmUp<C>, LimitError> {
        WarmUp::with_clock(window, limit, config, self.clock.clone())
    }

    /// Creates an adaptive breaker: [`AdaptiveBreaker::with_clock`].
    #[must_use]
    pub fn adaptive_breaker(&self, config: AdaptiveBreakerConfig) -> AdaptiveBreaker<C> {
        AdaptiveBreaker::with_clock(config, self.clock.clone())
    }

    /// Creates a closed circuit breaker: [`CircuitBreaker::with_clock`].
    #[must_use]
    pub fn circuit_breaker(&self, config: CircuitConfig) -> CircuitBreaker<C> {
        CircuitBreaker::with_clock(config, self.clock.clone())
    }

    /// Creates a limiter of the calls in flight that follows the capacity:
    /// [`AdaptiveLimiter::with_clock`].
    #[must_use]
    pub fn adaptive_limiter<A: LimitAlgorithm>(&self, algorithm: A) -> AdaptiveLimiter<A, C> {
        AdaptiveLimiter::with_clock(algorithm, self.clock.clone())
    }
}
