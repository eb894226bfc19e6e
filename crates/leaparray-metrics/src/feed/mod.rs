//! The feed of a registry to a recorder.

mod series;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use leaparray::{Clock, MonotonicClock, Registry, Resource};
use metrics::{Recorder, with_recorder};

use series::Series;

/// Feeds the recorder of the `metrics` facade from a [`Registry`].
///
/// Each [publication](Self::publish) adds what was counted since the last one. Call it at the interval of the scrapes, or more
/// often.
///
/// | metric | kind | labels | is |
/// |---|---|---|---|
/// | `leaparray_pass`, `_block`, `_success`, `_exception`, `_cancelled`, `_reserved_pass` | counter | resource, context, kind | the permits by event |
/// | `leaparray_in_flight` | gauge | the same | the requests in flight |
/// | `leaparray_response_time_seconds` | histogram | the same | by choice: the response times |
///
/// The kind is `inbound` or `outbound`. A resource that was evicted and is listed again goes on with its counters: the feed
/// increments them, and does not set them, because a recorder ignores a value that is less than the last one. Counters of a
/// resource that is idle are not touched, so an exporter with an idle time-out drops them. What a resource has counted after its
/// last publication, and before it was removed, is not fed.
///
/// ```
/// use leaparray::Registry;
/// use leaparray_metrics::RegistryFeed;
/// use metrics_exporter_prometheus::PrometheusBuilder;
/// use std::sync::Arc;
///
/// let recorder = PrometheusBuilder::new().build_recorder();
/// let handle = recorder.handle();
/// metrics::set_global_recorder(recorder)?;
///
/// let registry = Arc::new(Registry::new());
/// let feed = RegistryFeed::new(Arc::clone(&registry));
/// registry.resource("GET /orders")?.enter().success();
/// feed.publish();
/// let sample = r#"leaparray_success{resource="GET /orders",context="",kind="inbound"} 1"#;
/// assert!(handle.render().contains(sample));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct RegistryFeed<C = MonotonicClock> {
    registry: Arc<Registry<C>>,
    response_times: bool,
    fed: Mutex<Fed>,
}

#[derive(Default)]
struct Fed {
    is_described: bool,
    /// The series of each node, by its identity.
    series: HashMap<u64, Series>,
}

/// The identity of a node, which lives with it: a resource that is listed again has another one.
struct Identity(u64);

impl Identity {
    fn of<C>(resource: &Resource<C>) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the numbers only have to be distinct.
        resource.data_or_insert_with(|| Self(NEXT.fetch_add(1, Ordering::Relaxed))).0
    }
}

impl<C: Clock + Clone> RegistryFeed<C> {
    /// Creates a feed of all resources of `registry`, and of their contexts.
    #[must_use]
    pub fn new(registry: Arc<Registry<C>>) -> Self {
        Self { registry, response_times: false, fed: Mutex::default() }
    }

    /// Chooses whether the response times of resources with a [histogram](leaparray::NodeConfig::with_histogram) are fed, each as
    /// the middle of its bin. The default is `false`: most recorders take as long for each response time as the request did to
    /// record it.
    #[must_use]
    pub const fn response_times(mut self, response_times: bool) -> Self {
        self.response_times = response_times;
        self
    }

    /// Feeds what was counted since the last publication to the recorder of this thread, or to the global one. The first
    /// publication also describes the metrics.
    ///
    /// Publications at the same time take turns.
    pub fn publish(&self) {
        with_recorder(|recorder| self.publish_to(recorder));
    }

    fn publish_to(&self, recorder: &dyn Recorder) {
        // A recorder that panicked has left series of which each is whole.
        let mut fed = self.fed.lock().unwrap_or_else(PoisonError::into_inner);
        if !fed.is_described {
            series::describe(recorder);
            fed.is_described = true;
        }
        for resource in &*self.registry {
            for context in resource.contexts() {
                self.feed(&mut fed, &context, recorder);
            }
            self.feed(&mut fed, &resource, recorder);
        }
        // Those of resources that are no longer listed go.
        fed.series.retain(|_, series| series.is_seen.replace(false));
    }

    fn feed(&self, fed: &mut Fed, resource: &Resource<C>, recorder: &dyn Recorder) {
        let new = || Series::new(resource);
        let series = fed.series.entry(Identity::of(resource)).or_insert_with(new);
        series.feed(resource, self.response_times, recorder);
    }
}

impl<C> fmt::Debug for RegistryFeed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryFeed")
            .field("registry", &self.registry)
            .field("response_times", &self.response_times)
            .finish_non_exhaustive()
    }
}
