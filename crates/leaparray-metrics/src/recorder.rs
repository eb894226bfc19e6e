//! A recorder that keeps metrics in sliding windows.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;

use leaparray::{Clock, HistogramConfig, MetricEvent, MonotonicClock, SlidingWindow, WindowConfig};
use metrics::{
    Counter, CounterFn, Gauge, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use metrics_util::registry::{Registry, Storage};

/// A recorder of the `metrics` facade that keeps what a process records in sliding windows: exact
/// rates of counters, and quantiles of histograms, of the last second or any other interval, while
/// an exporter takes the same metrics.
///
/// Clones share their metrics: install one clone, and read another. Install it alone, or beside an
/// exporter in a `metrics_util::layers::Fanout`.
///
/// A *counter* is a window whose [`Pass`](MetricEvent::Pass) is the count. The first value that a
/// new counter is set to by `absolute` is where it begins: it was reached at an unknown earlier
/// time, so the window does not count it. A *histogram* is a
/// window with a histogram, whose response times are its values: a value of 1 is a second, and
/// values are kept to 10⁻⁹. A value above 4.6 · 10⁹ (2⁶² ns) counts as that. A negative value, or
/// NaN, is not recorded, and [counted](Self::invalid). A *gauge* is its last value.
///
/// Like other recorders, it keeps each key until it is [dropped](Self::drop_idle).
///
/// ```
/// use leaparray_metrics::WindowRecorder;
/// use metrics::Key;
/// use metrics_exporter_prometheus::PrometheusBuilder;
/// use metrics_util::layers::FanoutBuilder;
///
/// let windows = WindowRecorder::default();
/// let exporter = PrometheusBuilder::new().build_recorder();
/// let fanout =
///     FanoutBuilder::default().add_recorder(exporter).add_recorder(windows.clone());
/// metrics::set_global_recorder(fanout.build())?;
///
/// // Anywhere in the process, as before:
/// metrics::counter!("orders").increment(1);
/// metrics::histogram!("latency").record(0.25);
///
/// // The last second:
/// let orders = windows.counter(&Key::from_name("orders")).unwrap();
/// assert_eq!(orders.now().sum(leaparray::MetricEvent::Pass), 1);
/// let latency = windows.histogram(&Key::from_name("latency")).unwrap();
/// assert_eq!(latency.now().quantile(0.99), Some(std::time::Duration::from_millis(250)));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct WindowRecorder<C: Clock + Clone = MonotonicClock> {
    shared: Arc<Registry<Key, Windows<C>>>,
}

/// Creates the metrics.
#[derive(Debug)]
struct Windows<C> {
    window: WindowConfig,
    histogram: HistogramConfig,
    clock: C,
    invalid: Arc<AtomicU64>,
}

/// A counter.
#[derive(Debug)]
struct Counted<C: Clock> {
    window: SlidingWindow<C>,
    /// The value of the counter plus 1: the sum of its increments, or the value that it was
    /// [set](CounterFn::absolute) to. 0 before it has a value.
    total: AtomicU64,
    /// Whether it was ever set. Then its next increment is the difference between the next value
    /// and the total.
    is_set: AtomicBool,
}

/// A histogram.
#[derive(Debug)]
struct Distributed<C: Clock> {
    window: SlidingWindow<C>,
    /// The values of all histograms that were not recorded.
    invalid: Arc<AtomicU64>,
}

impl<C: Clock + Clone> WindowRecorder<C> {
    /// Creates a recorder whose counters and histograms have windows of this geometry, over
    /// `clock`.
    ///
    /// [`default`](Self::default) has ten buckets of 100 ms, and histograms with the default error.
    #[must_use]
    pub fn new(window: WindowConfig, histogram: HistogramConfig, clock: C) -> Self {
        let storage = Windows { window, histogram, clock, invalid: Arc::default() };
        Self { shared: Arc::new(Registry::new(storage)) }
    }

    /// Returns the window of a counter, which shares its counts; `None` if nothing has registered
    /// it.
    ///
    /// The window does not keep the counter: once that is [dropped](Self::drop_idle), a new one has
    /// a new window.
    #[must_use]
    pub fn counter(&self, key: &Key) -> Option<SlidingWindow<C>> {
        self.shared.get_counter(key).map(|counter| counter.window.clone())
    }

    /// Returns the window of a histogram, which shares its values; `None` if nothing has registered
    /// it.
    ///
    /// The window does not keep the histogram: once that is [dropped](Self::drop_idle), a new one
    /// has a new window.
    #[must_use]
    pub fn histogram(&self, key: &Key) -> Option<SlidingWindow<C>> {
        self.shared.get_histogram(key).map(|histogram| histogram.window.clone())
    }

    /// Returns the value of a gauge; `None` if nothing has registered it.
    #[must_use]
    pub fn gauge(&self, key: &Key) -> Option<f64> {
        self.shared.get_gauge(key).map(|gauge| f64::from_bits(gauge.load(Ordering::Relaxed)))
    }

    /// Returns all counters with their windows, in no order.
    #[must_use]
    pub fn counters(&self) -> Vec<(Key, SlidingWindow<C>)> {
        let mut counters = Vec::new();
        self.shared
            .visit_counters(|key, counter| counters.push((key.clone(), counter.window.clone())));
        counters
    }

    /// Returns all histograms with their windows, in no order.
    #[must_use]
    pub fn histograms(&self) -> Vec<(Key, SlidingWindow<C>)> {
        let mut histograms = Vec::new();
        self.shared.visit_histograms(|key, histogram| {
            histograms.push((key.clone(), histogram.window.clone()));
        });
        histograms
    }

    /// Returns all gauges with their values, in no order.
    #[must_use]
    pub fn gauges(&self) -> Vec<(Key, f64)> {
        let mut gauges = Vec::new();
        self.shared.visit_gauges(|key, gauge| {
            gauges.push((key.clone(), f64::from_bits(gauge.load(Ordering::Relaxed))));
        });
        gauges
    }

    /// Returns how many values of histograms were not recorded, because they were negative or NaN.
    #[must_use]
    pub fn invalid(&self) -> u64 {
        // Relaxed, as all accesses: a count that orders nothing.
        self.shared.storage().invalid.load(Ordering::Relaxed)
    }

    /// Drops each counter and histogram that has no handle left and nothing recorded in its window.
    /// Gauges stay, and so do counters that were ever set by `absolute`: their next value counts
    /// from the last one. Returns how many were dropped.
    #[expect(clippy::must_use_candidate, reason = "it is called for its effect")]
    pub fn drop_idle(&self) -> usize {
        let mut dropped = 0;
        let mut retain = |is_kept: bool| {
            dropped += usize::from(!is_kept);
            is_kept
        };
        self.shared.retain_counters(|_, counter| {
            let is_kept = is_shared(counter)
                || counter.is_set.load(Ordering::Relaxed)
                || counter.window.now().sum(MetricEvent::Pass) > 0;
            retain(is_kept)
        });
        self.shared.retain_histograms(|_, histogram| {
            retain(is_shared(histogram) || histogram.window.now().totals().max_rt().is_some())
        });
        dropped
    }
}

/// Returns whether there are handles beside the handle of the registry. The caller holds the lock
/// of the registry's shard, so no thread makes another handle until the caller has decided.
fn is_shared<T>(metric: &Arc<T>) -> bool {
    let is_shared = Arc::strong_count(metric) > 1;
    // Acquire: synchronizes with the release in the drop of each handle, so that the caller reads
    // everything that was recorded through it.
    fence(Ordering::Acquire);
    is_shared
}

impl Default for WindowRecorder {
    fn default() -> Self {
        let second = WindowConfig::new(10, Duration::from_secs(1)).expect("100 ms each");
        Self::new(second, HistogramConfig::default(), MonotonicClock::new())
    }
}

impl<C: Clock + Clone> Clone for WindowRecorder<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C: Clock + Clone> Storage<Key> for Windows<C> {
    type Counter = Arc<Counted<C>>;
    type Gauge = Arc<AtomicU64>;
    type Histogram = Arc<Distributed<C>>;

    fn counter(&self, _: &Key) -> Self::Counter {
        let window = SlidingWindow::with_clock(self.window, self.clock.clone());
        Arc::new(Counted { window, total: AtomicU64::new(0), is_set: AtomicBool::new(false) })
    }

    fn gauge(&self, _: &Key) -> Self::Gauge {
        Arc::new(AtomicU64::new(0_f64.to_bits()))
    }

    fn histogram(&self, _: &Key) -> Self::Histogram {
        let clock = self.clock.clone();
        let window = SlidingWindow::with_histogram(self.window, self.histogram, clock);
        Arc::new(Distributed { window, invalid: Arc::clone(&self.invalid) })
    }
}

impl<C: Clock + Clone> CounterFn for Counted<C> {
    fn increment(&self, value: u64) {
        // Relaxed: see `absolute`.
        if self.total.load(Ordering::Relaxed) == 0 {
            self.total.fetch_max(1, Ordering::Relaxed);
        }
        self.total.fetch_add(value, Ordering::Relaxed);
        self.window.add(MetricEvent::Pass, value);
    }

    fn absolute(&self, value: u64) {
        self.is_set.store(true, Ordering::Relaxed);
        let total = value.saturating_add(1);
        // Relaxed: the operations on `total` have one order, and each thread adds to the window
        // what it has added to the total, but for the first value. So the window has the growth
        // since then, whichever of the threads that set a new counter is the first.
        let before = self.total.fetch_max(total, Ordering::Relaxed);
        if before > 0 && total > before {
            self.window.add(MetricEvent::Pass, total - before);
        }
    }
}

impl<C: Clock + Clone> HistogramFn for Distributed<C> {
    fn record(&self, value: f64) {
        if value.is_nan() || value < 0.0 {
            self.invalid.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // A value that is too large for a duration becomes the largest, which the window cuts at
        // 2⁶² ns.
        self.window.record_rt_at(
            self.window.clock().now(),
            Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX),
        );
    }
}

impl<C> Recorder for WindowRecorder<C>
where
    C: Clock + Clone + Send + Sync + 'static,
{
    /// Does nothing: a window has no description.
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    /// Does nothing.
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    /// Does nothing.
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.shared.get_or_create_counter(key, |counter| Counter::from_arc(Arc::clone(counter)))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.shared.get_or_create_gauge(key, |gauge| Gauge::from_arc(Arc::clone(gauge)))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        self.shared.get_or_create_histogram(key, |histogram| {
            metrics::Histogram::from_arc(Arc::clone(histogram))
        })
    }
}

impl<C: Clock + Clone> fmt::Debug for WindowRecorder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowRecorder").finish_non_exhaustive()
    }
}
