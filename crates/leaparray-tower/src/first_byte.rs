//! The times to the first byte.

use std::ops::Deref;

use leaparray::{Clock, MonotonicClock, Resource, SlidingWindow, Timestamp};

/// The times from the entry of a request to the head of its response, often called time to first
/// byte. They live with the resource, beside its response times, which last until the end of the
/// body.
///
/// It is a [`SlidingWindow`] with the geometry of the long window, and with a histogram if the
/// resource has one. Each head counts as a success with its time. See
/// [`ResourceLayer::first_byte`](crate::ResourceLayer::first_byte).
///
/// ```
/// use http::{Request, Response};
/// use leaparray::{MetricEvent, Registry};
/// use leaparray_tower::{FirstByte, ResourceLayer};
/// use std::convert::Infallible;
/// use std::sync::Arc;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let registry = Arc::new(Registry::new());
/// let name = |_: &Request<()>, name: &mut String| name.push_str("report");
/// let layer = ResourceLayer::new(Arc::clone(&registry), name)?.first_byte(true);
/// let answer = async |_| Ok::<_, Infallible>(Response::new("a long report".to_owned()));
/// let service = ServiceBuilder::new().layer(layer).service(service_fn(answer));
///
/// let response = service.oneshot(Request::new(())).await?;
/// let report = registry.get("report").unwrap();
/// let times = FirstByte::of(&report).expect("recorded with the head");
/// assert_eq!(times.now().sum(MetricEvent::Success), 1);
/// // The request itself ends with its body.
/// assert_eq!(report.concurrency(), 1);
/// # drop(response);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FirstByte<C: Clock = MonotonicClock>(SlidingWindow<C>);

impl<C: Clock + Clone> FirstByte<C> {
    /// Returns the times of a resource; `None` before its first response, or if its layer does not
    /// record them.
    #[must_use]
    pub fn of(resource: &Resource<C>) -> Option<&Self>
    where
        C: Send + Sync + 'static,
    {
        resource.data()
    }

    /// Records the head of a response.
    pub(crate) fn record(resource: &Resource<C>, start: Timestamp)
    where
        C: Send + Sync + 'static,
    {
        let now = resource.clock().now();
        let times = resource.data_or_insert_with(|| Self::new(resource));
        times.record_success_at(now, now.saturating_since(start));
    }

    fn new(resource: &Resource<C>) -> Self {
        let (config, clock) = (resource.config(), resource.clock().clone());
        Self(match config.histogram() {
            Some(histogram) => SlidingWindow::with_histogram(*config.long(), histogram, clock),
            None => SlidingWindow::with_clock(*config.long(), clock),
        })
    }
}

impl<C: Clock> Deref for FirstByte<C> {
    type Target = SlidingWindow<C>;

    fn deref(&self) -> &SlidingWindow<C> {
        &self.0
    }
}
