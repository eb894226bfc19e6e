//! The layer around services of the tests, without a server.

mod bodies;
mod decisions;
mod endings;
mod found;
mod headers;
mod keys;
mod known;
mod names;
mod parts;
mod readiness;
mod shared;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use leaparray::node::NodeSnapshot;
use leaparray::{ManualClock, MetricEvent, Registry, RegistryConfig, Resource, Timestamp};
use leaparray_tower::ResourceLayer;

type Manual = Registry<ManualClock>;

/// A step of a body.
#[derive(Clone, Debug)]
enum Step {
    Data(&'static [u8]),
    Trailers(HeaderMap),
    /// The body is not ready, in this poll.
    Pending,
    Error,
    Panic,
}

/// A body that goes through steps, and ends after the last one.
#[derive(Clone, Debug, Default)]
struct Steps {
    left: VecDeque<Step>,
    /// Whether the body says that it has ended, as soon as it has.
    says_end: bool,
    length: Option<u64>,
}

impl Steps {
    fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { left: steps.into_iter().collect(), says_end: false, length: None }
    }

    fn that_says_its_end(self) -> Self {
        Self { says_end: true, ..self }
    }

    fn with_length(self, length: u64) -> Self {
        Self { length: Some(length), ..self }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Broken;

impl Body for Steps {
    type Data = &'static [u8];
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<&'static [u8]>, Broken>>> {
        match self.left.pop_front() {
            None => Poll::Ready(None),
            Some(Step::Data(data)) => Poll::Ready(Some(Ok(Frame::data(data)))),
            Some(Step::Trailers(trailers)) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Some(Step::Pending) => Poll::Pending,
            Some(Step::Error) => Poll::Ready(Some(Err(Broken))),
            Some(Step::Panic) => panic!("the body panics"),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.says_end && self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

fn registry() -> Arc<Manual> {
    registry_with(RegistryConfig::default())
}

fn registry_with(config: RegistryConfig) -> Arc<Manual> {
    Arc::new(Registry::with_clock(config, ManualClock::new(Timestamp::from_secs(3_600))))
}

/// Names each request by its path.
fn by_path<A>(request: &Request<A>, name: &mut String) {
    name.push_str(request.uri().path());
}

type ByPath<A> = ResourceLayer<
    fn(&Request<A>, &mut String),
    leaparray_tower::ByStatus,
    leaparray_tower::Unlimited,
    leaparray_tower::Answer,
    ManualClock,
>;

fn layer(registry: &Arc<Manual>) -> ByPath<()> {
    ResourceLayer::new(Arc::clone(registry), by_path as _).unwrap()
}

/// The layer around a client.
fn outbound(registry: &Arc<Manual>) -> ByPath<()> {
    ResourceLayer::outbound(Arc::clone(registry), by_path as _).unwrap()
}

/// A resource with the endings of its requests: successes, exceptions, cancellations, blocks, and
/// those in flight.
fn endings(resource: &Resource<ManualClock>) -> [u64; 5] {
    let snapshot: NodeSnapshot = resource.now().snapshot();
    let sum = |event| snapshot.long.totals.sum(event);
    let [success, exception, cancelled, block] =
        [MetricEvent::Success, MetricEvent::Exception, MetricEvent::Cancelled, MetricEvent::Block]
            .map(sum);
    [success, exception, cancelled, block, snapshot.concurrency]
}

fn endings_of(registry: &Manual, name: &str) -> [u64; 5] {
    endings(&registry.get(name).unwrap_or_else(|| panic!("{name} is not listed")))
}

const SUCCESS: [u64; 5] = [1, 0, 0, 0, 0];
const EXCEPTION: [u64; 5] = [0, 1, 0, 0, 0];
const CANCELLED: [u64; 5] = [0, 0, 1, 0, 0];
const IN_FLIGHT: [u64; 5] = [0, 0, 0, 0, 1];

fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).unwrap()
}

/// Polls a future once, which is then complete.
fn poll_now<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is not complete"),
    }
}

/// Polls a body once.
#[expect(clippy::type_complexity, reason = "the type of `poll_frame`")]
fn poll_body<B: Body + Unpin>(body: &mut B) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
    Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()))
}

/// Makes a service that answers each request with a clone of a response.
fn answering<B: Clone>(
    response: Response<B>,
) -> impl tower::Service<
    Request<()>,
    Response = Response<B>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<B>, Infallible>>,
> + Clone {
    tower::service_fn(move |_| {
        let response = response.clone();
        async { Ok(response) }
    })
}
