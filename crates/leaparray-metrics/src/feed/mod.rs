//! The feed of a registry to a recorder.

mod series;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use leaparray::{Clock, MonotonicClock, Registry, Resource, ResourceId};
use metrics::{Recorder, with_recorder};

use series::Series;

/// Feeds the recorder of the `metrics` facade from a [`Registry`].
///
/// Each [publication](Self::publish) adds the counts since the last one, and the first adds the
/// counts since the feed was [made](Self::new). Call it at the interval of the scrapes, or more
/// often.
///
/// | metric | kind | labels | value |
/// |---|---|---|---|
/// | `leaparray_pass`, `_block`, `_success`, `_exception`, `_cancelled`, `_reserved_pass` | counter | resource, context, kind | the permits by event |
/// | `leaparray_in_flight` | gauge | the same | the requests in flight |
/// | `leaparray_response_time_seconds` | histogram | the same | the response times, if [`response_times`](Self::response_times) is enabled |
///
/// The kind is `inbound` or `outbound`. A resource that was evicted and is listed again continues
/// its counters. The feed increments counters instead of setting them, because a recorder ignores a
/// value below the last one. The series of a resource that is idle are not touched, so an exporter
/// with an idle time-out drops them. If a resource was removed, its requests in flight are set
/// to 0. Counts between the last publication and the eviction or removal of a resource are not fed,
/// and neither are counts through handles to a removed resource. Response times that were recorded
/// without a histogram are not fed either.
///
/// Install the recorder before the first publication: without one, a publication feeds nothing, and
/// the next one does not repeat it.
///
/// A recorder needs one feed of a registry. A feed that is made later, in place of another, goes on
/// from the counts at its creation, so publish the earlier feed before. Two feeds that publish to
/// one recorder at the same time add each count twice.
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
    series: Mutex<HashMap<ResourceId, Series>>,
}

impl<C: Clock + Clone> RegistryFeed<C> {
    /// Creates a feed of all resources of `registry`, and of their contexts. It feeds what they
    /// count from now on: what they have counted before is neither fed again, if another feed has
    /// fed it, nor taken for the rate of the first interval.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray_metrics::RegistryFeed;
    /// use metrics_exporter_prometheus::PrometheusBuilder;
    /// use std::sync::Arc;
    ///
    /// let recorder = PrometheusBuilder::new().build_recorder();
    /// let registry = Arc::new(Registry::new());
    /// for _ in 0..2 {
    ///     let feed = RegistryFeed::new(Arc::clone(&registry));
    ///     registry.resource("orders")?.enter().success();
    ///     metrics::with_local_recorder(&recorder, || feed.publish());
    /// }
    /// let sample = r#"leaparray_success{resource="orders",context="",kind="inbound"} 2"#;
    /// assert!(recorder.handle().render().contains(sample));
    /// # Ok::<_, leaparray::RegistryError>(())
    /// ```
    #[must_use]
    pub fn new(registry: Arc<Registry<C>>) -> Self {
        let feed = Self { registry, response_times: false, series: Mutex::default() };
        let series = feed.nodes().map(|node| (node.id(), Series::starting_at(&node))).collect();
        Self { series: Mutex::new(series), ..feed }
    }

    /// Chooses whether the response times of resources with a
    /// [histogram](leaparray::NodeConfig::with_histogram) are fed, each as the middle of its bin.
    /// The default is `false`: most recorders take as long to record each response time as the
    /// request itself did.
    #[must_use]
    pub const fn response_times(mut self, response_times: bool) -> Self {
        self.response_times = response_times;
        self
    }

    /// Feeds the counts since the last publication to the recorder of this thread, or to the global
    /// one, and describes the metrics to it.
    ///
    /// Publications at the same time take turns.
    pub fn publish(&self) {
        with_recorder(|recorder| self.publish_to(recorder));
    }

    fn publish_to(&self, recorder: &dyn Recorder) {
        // After a panic of the recorder, no count is fed twice.
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series::describe(recorder);
        let nodes: HashMap<_, _> = self.nodes().map(|node| (node.id(), node)).collect();
        // Before the others are fed: one of them may have the labels of a node that was removed.
        series.retain(|id, series| {
            let is_listed = nodes.contains_key(id);
            if !is_listed {
                series.feed_in_flight(0, recorder);
            }
            is_listed
        });
        for (id, node) in nodes {
            let series = series.entry(id).or_insert_with(|| Series::new(&node));
            series.feed(&node, self.response_times, recorder);
        }
    }

    /// Returns the resources and their contexts.
    fn nodes(&self) -> impl Iterator<Item = Resource<C>> {
        (&*self.registry).into_iter().flat_map(|resource| {
            let mut nodes: Vec<_> = resource.contexts().collect();
            nodes.push(resource);
            nodes
        })
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
