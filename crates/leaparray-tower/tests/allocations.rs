//! The layer allocates nothing for an admitted request. Alone in its binary: the allocator counts
//! the whole process.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use leaparray::flow::{ConcurrencyLimiter, Rate, TokenBucket};
use leaparray::{
    HistogramConfig, ManualClock, MetricEvent, NodeConfig, Registry, RegistryConfig, Timestamp,
};
use leaparray_tower::ResourceLayer;
use tower::{Layer, Service, service_fn};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Sends a request, and reads the body of its response to the end.
fn request<S, B>(service: &mut S)
where
    S: Service<Request<()>, Response = Response<B>>,
    S::Error: std::fmt::Debug,
    B: Body,
{
    let mut cx = Context::from_waker(Waker::noop());
    let mut future = pin!(service.call(Request::new(())));
    let Poll::Ready(response) = future.as_mut().poll(&mut cx) else { panic!("it is ready") };
    let mut body = pin!(response.unwrap().into_body());
    while let Poll::Ready(Some(_)) = body.as_mut().poll_frame(&mut cx) {}
}

/// Returns the number of allocations of 1,000 requests, after some that make what is made once.
fn allocations<S, B>(mut service: S) -> u64
where
    S: Service<Request<()>, Response = Response<B>>,
    S::Error: std::fmt::Debug,
    B: Body,
{
    let blocks = || dhat::HeapStats::get().total_blocks;
    for _ in 0..10 {
        request(&mut service);
    }
    let before = blocks();
    for _ in 0..1_000 {
        request(&mut service);
    }
    blocks() - before
}

#[test]
fn admitted_request_allocates_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    // The clock stands still, so that no bucket is replaced during the test.
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    let config = RegistryConfig::default().node(node);
    let registry = Arc::new(Registry::with_clock(config, clock.clone()));
    let name = |_: &Request<()>, name: &mut String| name.push_str("GET /orders/{id}");
    let layer = || ResourceLayer::new(Arc::clone(&registry), name).unwrap();
    let inner = service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::new(&b"an order"[..])))
    });
    assert_eq!(allocations(inner), 0, "the service itself");
    assert_eq!(allocations(layer().layer(inner)), 0);
    assert_eq!(allocations(layer().first_byte(true).layer(inner)), 0);
    let bucket = TokenBucket::new(Rate::per_second(1_000_000).unwrap(), 100_000);
    assert_eq!(allocations(layer().limit(Arc::new(bucket)).layer(inner)), 0);
    let each = |_: &_| Some(Arc::new(ConcurrencyLimiter::new(1)));
    assert_eq!(allocations(layer().limit_each(each).layer(inner)), 0);
    // There is room for the resource of the names without room only.
    let full = Arc::new(Registry::with_clock(RegistryConfig::default().max_resources(1), clock));
    let without_room = ResourceLayer::new(Arc::clone(&full), name).unwrap();
    assert_eq!(allocations(without_room.layer(inner)), 0);
    assert_eq!(full.refused(), 1_010);
    let resource = registry.get("GET /orders/{id}").unwrap();
    assert_eq!(resource.lifetime().sum(MetricEvent::Success), 4 * 1_010);
}
