//! The number of instructions of a request with the layer and without it. `.ci/instructions` runs
//! this bench under callgrind.
//!
//! A request is a call of the service, and its response to the end of the body. Nothing waits, and
//! no operation reads a real clock. The names of resources are hashed with random keys, so the
//! numbers differ by a few instructions between runs.

use std::borrow::Cow;
use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::pin::{Pin, pin};
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use axum::Router;
use axum::body::Bytes;
use axum::extract::MatchedPath;
use axum::routing::get;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Empty, Full};
use leaparray::flow::keyed::OfKey;
use leaparray::flow::{Keyed, Rate, TokenBucket};
use leaparray::node::{OnDrop, ResponseClass};
use leaparray::{
    Entry, HistogramConfig, ManualClock, NodeConfig, Registry, RegistryConfig, Resource,
};
use leaparray_instructions::{NOW, Operation, PLENTY};
use leaparray_rules::{RuleSet, Rules};
use leaparray_tower::{ByStatus, MatchedRoute, ResourceLayer, Unlimited};
use pin_project_lite::pin_project;
use tower::{Layer, Service, layer::layer_fn, service_fn};

const OPERATIONS: [Operation; 15] = [
    ("service_alone", service_alone),
    ("service_with_own_body", service_with_own_body),
    ("service_with_layer", service_with_layer),
    ("service_with_histogram", service_with_histogram),
    ("service_with_first_byte", service_with_first_byte),
    ("service_with_limiter", service_with_limiter),
    ("service_that_refuses", service_that_refuses),
    ("axum_alone", axum_alone),
    ("axum_with_own_body", axum_with_own_body),
    ("axum_with_least", axum_with_least),
    ("axum_with_least_by_route", axum_with_least_by_route),
    ("axum_with_layer", axum_with_layer),
    ("axum_with_limiter", axum_with_limiter),
    ("axum_by_key", axum_by_key),
    ("axum_with_rules", axum_with_rules),
];

fn service_alone(times: u64) {
    repeat(times, inner(), StatusCode::OK);
}

fn service_with_own_body(times: u64) {
    repeat(times, OwnBody(inner()), StatusCode::OK);
}

fn service_with_layer(times: u64) {
    repeat(times, layer(orders).layer(inner()), StatusCode::OK);
}

fn service_with_histogram(times: u64) {
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    let layer = layer_over(RegistryConfig::default().node(node), orders);
    repeat(times, layer.layer(inner()), StatusCode::OK);
}

fn service_with_first_byte(times: u64) {
    repeat(times, layer(orders).first_byte(true).layer(inner()), StatusCode::OK);
}

fn service_with_limiter(times: u64) {
    repeat(times, layer(orders).limit(bucket(PLENTY)).layer(inner()), StatusCode::OK);
}

fn service_that_refuses(times: u64) {
    let mut service = layer(orders).limit(bucket(1)).layer(inner());
    request(&mut service, StatusCode::OK);
    repeat(times, service, StatusCode::TOO_MANY_REQUESTS);
}

fn axum_alone(times: u64) {
    repeat(times, router().with_state(()), StatusCode::OK);
}

fn axum_with_own_body(times: u64) {
    repeat(times, router().layer(layer_fn(OwnBody)).with_state(()), StatusCode::OK);
}

fn axum_with_layer(times: u64) {
    // With its state: a router without it would apply the layer to each request anew.
    repeat(times, router().layer(layer(MatchedRoute)).with_state(()), StatusCode::OK);
}

fn axum_with_least(times: u64) {
    repeat(times, router().layer(layer_fn(least(false))).with_state(()), StatusCode::OK);
}

fn axum_with_least_by_route(times: u64) {
    repeat(times, router().layer(layer_fn(least(true))).with_state(()), StatusCode::OK);
}

fn least<S>(by_route: bool) -> impl Fn(S) -> Least<S> + Clone {
    let registry = Registry::with_clock(RegistryConfig::default(), ManualClock::new(NOW));
    let resource = registry.resource("GET /orders/{id}").expect("room for the first resource");
    move |inner| Least { inner, resource: resource.clone(), by_route }
}

fn axum_with_limiter(times: u64) {
    let layer = layer(MatchedRoute).limit(bucket(PLENTY));
    repeat(times, router().layer(layer).with_state(()), StatusCode::OK);
}

fn axum_by_key(times: u64) {
    let rate = Rate::per_second(PLENTY).expect("not zero");
    let each = TokenBucket::with_clock(rate, PLENTY, ManualClock::new(NOW));
    let keyed = Arc::new(Keyed::<u64, _>::new(each, 1_000).expect("few enough keys"));
    let choose = move |request: &Request<axum::body::Body>, _: &Resource<ManualClock>| {
        let key = request.uri().path().len() as u64;
        Some(OfKey::new(Arc::clone(&keyed), Cow::<u64>::Owned(key)))
    };
    let layer = layer(MatchedRoute).limit_by(choose);
    repeat(times, router().layer(layer).with_state(()), StatusCode::OK);
}

fn axum_with_rules(times: u64) {
    let registry = Registry::with_clock(RegistryConfig::default(), ManualClock::new(NOW));
    let rules = Rules::new(Arc::new(registry));
    let text = "[[rule]]\nname = \"orders\"\nresource = \"GET /orders/*\"\n\
        limit = \"1000000000 per second, bursts of 1000000000\"";
    rules.apply(&RuleSet::parse(text).expect("a good rule"));
    let layer = rules.layer().expect("room for the first resource");
    repeat(times, router().layer(layer).with_state(()), StatusCode::OK);
}

/// The least layer that counts each request once: it enters a resource that it has already, before
/// the service is called, and ends with the last frame, with an outcome by the status. It finds no
/// resource by a name, counts no classes, and knows no other body than one of a known size.
///
/// By route, it also finds the resource by the method and the matched route of the request, if they
/// are those of the last request of the thread, and counts the response by its class.
#[derive(Clone)]
struct Least<S> {
    inner: S,
    resource: Resource<ManualClock>,
    by_route: bool,
}

type LeastEntry = Entry<Resource<ManualClock>, ManualClock>;

thread_local! {
    static LAST: RefCell<Option<Found>> = const { RefCell::new(None) };
}

/// The resource of the last request of a thread.
struct Found {
    method: Method,
    route: MatchedPath,
    resource: Resource<ManualClock>,
}

/// Returns the resource of a request, which is `resource` if the thread has found another one last.
fn find<A>(request: &Request<A>, resource: &Resource<ManualClock>) -> Resource<ManualClock> {
    let route: &MatchedPath = request.extensions().get().expect("a matched route");
    LAST.with_borrow_mut(|last| match last {
        Some(found)
            if found.method == *request.method()
                && ptr::eq(found.route.as_str(), route.as_str()) =>
        {
            found.resource.clone()
        }
        _ => {
            let (method, route) = (request.method().clone(), route.clone());
            *last = Some(Found { method, route, resource: resource.clone() });
            resource.clone()
        }
    })
}

impl<S, A, B> Service<Request<A>> for Least<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body<Data = Bytes>,
{
    type Response = Response<Counted<B>>;
    type Error = S::Error;
    type Future = Counted<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let by_route = self.by_route;
        let resource =
            if by_route { find(&request, &self.resource) } else { self.resource.clone() };
        let entry = Entry::enter(resource).on_drop(OnDrop::Cancelled);
        Counted { inner: self.inner.call(request), entry: Some(entry), left: 0, by_route }
    }
}

pin_project! {
    /// A future or a body with the entry of its request.
    struct Counted<T> {
        #[pin]
        inner: T,
        entry: Option<LeastEntry>,
        left: u64,
        by_route: bool,
    }
}

impl<F, B, E> Future for Counted<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<Counted<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let result = ready!(this.inner.poll(cx));
        let (mut entry, by_route) = (this.entry.take(), *this.by_route);
        Poll::Ready(result.map(|response| {
            if by_route && let Some(entry) = &entry {
                let class = ResponseClass::of_status(response.status().as_u16());
                entry.node().count_response(class);
            }
            if response.status().is_server_error()
                && let Some(entry) = entry.take()
            {
                entry.exception();
            }
            response.map(|inner| {
                let left = inner.size_hint().exact().unwrap_or(u64::MAX);
                Counted { inner, entry, left, by_route }
            })
        }))
    }
}

impl<B: Body<Data = Bytes>> Body for Counted<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let polled = this.inner.poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            *this.left = this.left.saturating_sub(data.len() as u64);
            if *this.left == 0
                && let Some(entry) = this.entry.take()
            {
                entry.success();
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The floor of a layer: a service with a future and a body of its own that do nothing.
#[derive(Clone)]
struct OwnBody<S>(S);

impl<S, A, B> Service<Request<A>> for OwnBody<S>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Response = Response<Through<B>>;
    type Error = S::Error;
    type Future = Through<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        Through { inner: self.0.call(request) }
    }
}

pin_project! {
    /// A future or a body that passes the inner one on.
    struct Through<T> {
        #[pin]
        inner: T,
    }
}

impl<F: Future<Output = Result<Response<B>, E>>, B, E> Future for Through<F> {
    type Output = Result<Response<Through<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(self.project().inner.poll(cx));
        Poll::Ready(result.map(|response| response.map(|inner| Through { inner })))
    }
}

impl<B: Body> Body for Through<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().inner.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A service that does nothing but respond.
fn inner() -> impl Service<
    Request<Empty<Bytes>>,
    Response = Response<Full<Bytes>>,
    Error = Infallible,
    Future: Send,
> + Clone {
    service_fn(async |_| Ok(Response::new(Full::from("an order"))))
}

fn router() -> Router {
    Router::new().route("/orders/{id}", get(async || "an order"))
}

/// Names every request alike.
fn orders(_: &Request<Empty<Bytes>>, name: &mut String) {
    name.push_str("GET /orders/{id}");
}

type ManualLayer<N> = ResourceLayer<N, ByStatus, Unlimited, leaparray_tower::Answer, ManualClock>;

fn layer<N>(name: N) -> ManualLayer<N> {
    layer_over(RegistryConfig::default(), name)
}

fn layer_over<N>(config: RegistryConfig, name: N) -> ManualLayer<N> {
    let registry = Registry::with_clock(config, ManualClock::new(NOW));
    ResourceLayer::new(Arc::new(registry), name).expect("room for the first resource")
}

fn bucket(permits: u64) -> Arc<TokenBucket<ManualClock>> {
    let rate = Rate::per_second(permits).expect("not zero");
    Arc::new(TokenBucket::with_clock(rate, permits, ManualClock::new(NOW)))
}

fn repeat<S, B>(times: u64, mut service: S, status: StatusCode)
where
    S: Service<Request<Empty<Bytes>>, Response = Response<B>, Error: Debug>,
    B: Body,
{
    for _ in 0..times {
        request(&mut service, status);
    }
}

/// Sends a request, and reads the body of its response to the end.
fn request<S, B>(service: &mut S, status: StatusCode)
where
    S: Service<Request<Empty<Bytes>>, Response = Response<B>, Error: Debug>,
    B: Body,
{
    let mut cx = Context::from_waker(Waker::noop());
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = Uri::from_static("/orders/7");
    let future = pin!(service.call(request));
    let Poll::Ready(response) = future.poll(&mut cx) else { panic!("the service is ready") };
    let response = response.expect("a response");
    assert_eq!(response.status(), status);
    let mut body = pin!(response.into_body());
    while let Poll::Ready(Some(_)) = body.as_mut().poll_frame(&mut cx) {}
}

fn main() {
    leaparray_instructions::main(&OPERATIONS);
}
