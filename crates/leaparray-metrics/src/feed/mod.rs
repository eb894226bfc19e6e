//! The feed of a registry to a recorder.

mod series;
mod watched;

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use leaparray::registry::{SeriesKey, SeriesReader};
use leaparray::{Clock, MonotonicClock, Registry};
use metrics::{Recorder, with_recorder};

use series::Fed;
use watched::Watched;

/// Feeds the recorder of the `metrics` facade from a [`Registry`].
///
/// Each [publication](Self::publish) adds the counts since the last one, and the first adds the
/// counts since the feed was [made](Self::new). Call it at the interval of the scrapes, or more
/// often.
///
/// | metric | kind | labels | value |
/// |---|---|---|---|
/// | `leaparray_pass`, `_block`, `_success`, `_exception`, `_cancelled`, `_reserved_pass` | counter | resource, context, kind | the permits by event |
/// | `leaparray_refused_by` | counter | these, and limiter | the refused permits by the [name](leaparray::flow::LimiterExt::named) of the limiter, of resources with some |
/// | `leaparray_responses` | counter | resource, context, kind, and code: `1xx` to `5xx` | the responses by the class of their status, of resources that have some |
/// | `leaparray_in_flight` | gauge | resource, context, kind | the requests in flight |
/// | `leaparray_response_time_seconds` | histogram | the same | the response times, if [`response_times`](Self::response_times) is enabled |
/// | `leaparray_limit`, `_limit_remaining`, `_breaker_drop_probability`, `_circuit_state`, `_limiter_keys`, `_limiter_key_refusals`, `_shadow_mode`, `_shadow_enforced_share` | gauge | limiter, and state, key or mode | the state of the limiters that the registry [watches](Registry::watch) |
/// | `leaparray_shadow_would_refuse`, `_shadow_would_delay`, `_shadow_enforced` | counter | limiter | the requests that a limiter in the shadow would refuse or delay, or has refused or delayed |
///
/// The kind is `inbound` or `outbound`. The counts are those of the
/// [series](leaparray::registry::SeriesReader) of the registry: a resource that was evicted and is
/// listed again continues its counters, and its last counts before the eviction or removal are fed
/// too. The feed increments counters instead of setting them, because a recorder ignores a value
/// below the last one. The series of a resource that is idle are not touched, so an exporter with
/// an idle time-out drops them. If a resource was removed, its requests in flight are set to 0.
/// Response times that were recorded without a histogram are not fed.
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
    state: Mutex<State<C>>,
}

struct State<C> {
    series: SeriesReader<C>,
    /// Whether the reader reads histograms. The first reading does, in case that response times are
    /// fed.
    reads_histograms: bool,
    fed: HashMap<SeriesKey, Fed>,
    watched: Watched,
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
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn new(registry: Arc<Registry<C>>) -> Self {
        let mut series = registry.series();
        drop(series.read(&registry));
        let (fed, watched) = (HashMap::new(), Watched::new(&registry.watched()));
        let state = Mutex::new(State { series, reads_histograms: true, fed, watched });
        Self { registry, response_times: false, state }
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
    ///
    /// # Panics
    ///
    /// Panics if the recorder panics. A panic at a series is resumed after all other series were
    /// fed; the counts of that series since the last publication may be lost. A panic before, at a
    /// description or at a gauge of a watched limiter, ends the publication, and the next one feeds
    /// the counts of both.
    pub fn publish(&self) {
        with_recorder(|recorder| self.publish_to(recorder));
    }

    fn publish_to(&self, recorder: &dyn Recorder) {
        // Before the lock: this calls code of the user.
        let limiters = self.registry.watched();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        series::describe(recorder);
        watched::describe(recorder);
        let State { series, reads_histograms, fed, watched } = &mut *state;
        watched.feed(&limiters, recorder);
        if *reads_histograms && !self.response_times {
            let reader = mem::replace(series, self.registry.series());
            *series = reader.without_histograms();
            *reads_histograms = false;
        }
        let mut panicked = None;
        // Also if the recorder panics, which is code of the user, it gets the other series: the
        // next reading no longer has what is new in this one.
        let mut catch = |feed: &mut dyn FnMut()| match catch_unwind(AssertUnwindSafe(feed)) {
            Ok(()) => true,
            Err(panic) => {
                panicked = Some(panic);
                false
            }
        };
        let reading = series.read(&self.registry);
        let mut before = mem::take(fed);
        for series in &reading {
            let key = series.key();
            let is_listed = series.resource().is_some();
            let known = before.remove_entry(key);
            // Of a series that was delisted, the recorder gets the last counts, and no requests in
            // flight.
            if is_listed || series.has_changed() || known.is_some() {
                let (key, mut it) = known.unwrap_or_else(|| (key.clone(), Fed::new(key)));
                let is_fed = catch(&mut || it.feed(series, self.response_times, recorder));
                if is_listed || !is_fed {
                    fed.insert(key, it);
                }
            }
        }
        // The registry has forgotten these since the last publication.
        for (key, mut it) in before {
            if !catch(&mut || it.feed_in_flight(0, recorder)) {
                fed.insert(key, it);
            }
        }
        drop(reading);
        drop(state);
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
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
