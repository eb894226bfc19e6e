//! What the service records: a sliding window and a gauge for each route.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::{Clock, MetricEvent, MonotonicClock, SlidingWindow, Timestamp, WindowConfig};

use crate::route::Route;

/// Ten buckets: the limit sees at least the last 0.9 s, where with two it could be 0.5 s.
const WINDOW: WindowConfig = match WindowConfig::new(10, Duration::from_secs(1)) {
    Ok(config) => config,
    Err(_) => panic!("a second divides by ten"),
};

/// The metrics of every route, on one timeline.
pub(crate) struct Metrics {
    pub(crate) clock: MonotonicClock,
    routes: [Arc<RouteMetrics>; Route::COUNT],
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let clock = MonotonicClock::new();
        let routes = Route::ALL.map(|_| Arc::new(RouteMetrics::new(clock.clone())));
        Self { clock, routes }
    }

    pub(crate) fn of(&self, route: Route) -> &Arc<RouteMetrics> {
        &self.routes[route as usize]
    }
}

/// The metrics of one route.
pub(crate) struct RouteMetrics {
    pub(crate) window: SlidingWindow,
    in_flight: AtomicU64,
}

impl RouteMetrics {
    fn new(clock: MonotonicClock) -> Self {
        Self { window: SlidingWindow::with_clock(WINDOW, clock), in_flight: AtomicU64::new(0) }
    }

    /// How many requests are under way.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Lets a request in, or refuses it if that many have passed per second. One clock reading
    /// both decides and records.
    ///
    /// To look and to pass are two steps: requests that look at the same time may together pass
    /// a little more than the limit.
    pub(crate) fn admit(self: &Arc<Self>, limit: Option<f64>) -> Option<InFlight> {
        let now = self.window.clock().now();
        if limit.is_some_and(|limit| self.window.qps_at(now, MetricEvent::Pass) >= limit) {
            self.window.add_at(now, MetricEvent::Block, 1);
            return None;
        }
        let concurrency = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.window.add_at(now, MetricEvent::Pass, 1);
        self.window.record_concurrency_at(now, concurrency);
        Some(InFlight { metrics: Arc::clone(self), entered: now, succeeded: false })
    }
}

/// A request under way. Its end is recorded when it is dropped, so that a request whose client
/// went away is settled too: as an exception, like all that have not succeeded.
pub(crate) struct InFlight {
    metrics: Arc<RouteMetrics>,
    entered: Timestamp,
    succeeded: bool,
}

impl InFlight {
    pub(crate) fn succeed(mut self) {
        self.succeeded = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let window = &self.metrics.window;
        let now = window.clock().now();
        let rt = now.saturating_since(self.entered);
        if self.succeeded {
            window.record_success_at(now, rt);
        } else {
            window.record_exception_at(now, rt);
        }
        self.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
