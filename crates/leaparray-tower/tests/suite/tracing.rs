//! The events of a layer, as a subscriber writes them.

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Empty;
use leaparray::flow::{
    Ask, Decision, FixedWindowLimiter, Limiter, LimiterExt, Rate, Reason, Refusal, Retry,
    TokenBucket,
};
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_tower::ResourceLayer;
use tower::{Layer, Service, ServiceExt, service_fn};
use tracing::subscriber::DefaultGuard;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Returns a log of the events of this thread, until the guard is dropped.
    fn subscribe() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().without_time().with_ansi(false);
        let subscriber = subscriber.with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }
}

fn orders(_: &Request<Empty<&'static [u8]>>, name: &mut String) {
    name.push_str("orders");
}

#[tokio::test]
async fn resource_that_refuses_has_an_event_when_it_begins_and_when_it_ends() {
    let (log, _subscribed) = Log::subscribe();

    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock.clone()));
    let minute = Duration::from_secs(60);
    let limiter = FixedWindowLimiter::with_clock(minute, 2, clock.clone()).unwrap();
    let limiter = Arc::new(limiter.named("per minute"));
    let layer = ResourceLayer::new(registry, orders).unwrap().limit(limiter);
    let mut service = layer.layer(service_fn(async |_| {
        Ok::<_, Infallible>(Response::new(Empty::<&'static [u8]>::new()))
    }));
    let mut statuses = Vec::new();
    for _ in 0..5 {
        let response = service.ready().await.unwrap().call(Request::default()).await.unwrap();
        statuses.push(response.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 429, 429]);
    let events = log.take();
    assert_eq!(events.len(), 1, "{events:?}");
    let begins = "the resource begins to refuse requests resource=\"orders\" limiter=\"per minute\" \
        reason=the limit is reached";
    assert!(events[0].contains("WARN") && events[0].ends_with(begins), "{events:?}");

    clock.advance(minute);
    for _ in 0..2 {
        service.ready().await.unwrap().call(Request::default()).await.unwrap();
    }
    let events = log.take();
    assert_eq!(events.len(), 1, "{events:?}");
    let ends = "the resource no longer refuses requests resource=\"orders\" refused=3";
    assert!(events[0].contains("INFO") && events[0].ends_with(ends), "{events:?}");
}

/// Refuses for the reason that it has.
#[derive(Clone)]
struct Closed(Arc<Mutex<Option<Reason>>>);

impl Limiter for Closed {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        let reason = *self.0.lock().unwrap();
        let refused = |reason| Decision::Refused(Refusal::new(reason, Retry::Unknown));
        reason.map_or(Decision::Admitted(()), refused)
    }
}

#[tokio::test]
async fn breaker_has_events_of_its_own() {
    let (log, _subscribed) = Log::subscribe();

    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock.clone()));
    let closed = Closed(Arc::default());
    let layer = ResourceLayer::new(registry, orders).unwrap().limit(closed.clone());
    let mut service = layer.layer(service_fn(async |_| {
        Ok::<_, Infallible>(Response::new(Empty::<&'static [u8]>::new()))
    }));
    for reason in [Some(Reason::LimitReached), Some(Reason::Failing), Some(Reason::Failing), None] {
        *closed.0.lock().unwrap() = reason;
        service.ready().await.unwrap().call(Request::default()).await.unwrap();
    }
    clock.advance(Duration::from_secs(10));
    service.ready().await.unwrap().call(Request::default()).await.unwrap();
    let events = log.take();
    let ends = [
        "the resource begins to refuse requests resource=\"orders\" reason=the limit is reached",
        "the breaker begins to refuse requests resource=\"orders\" reason=the backend fails too often",
        "the breaker no longer refuses requests resource=\"orders\" refused=2",
        "the resource no longer refuses requests resource=\"orders\" refused=1",
    ];
    assert_eq!(events.len(), ends.len(), "{events:?}");
    for (event, end) in events.iter().zip(ends) {
        assert!(event.ends_with(end), "{event}");
    }
}

#[tokio::test]
async fn resource_that_refuses_now_and_then_has_one_event() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let _default = tracing::subscriber::set_default(subscriber);

    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock.clone()));
    let bucket = TokenBucket::with_clock(Rate::per_second(1).unwrap(), 1, clock.clone());
    let layer = ResourceLayer::new(registry, orders).unwrap().limit(Arc::new(bucket));
    let mut service = layer.layer(service_fn(async |_| {
        Ok::<_, Infallible>(Response::new(Empty::<&'static [u8]>::new()))
    }));
    // In each of 100 seconds, one request is admitted, and one refused.
    for _ in 0..100 {
        for status in [200, 429] {
            let response = service.ready().await.unwrap().call(Request::default()).await.unwrap();
            assert_eq!(response.status(), status);
        }
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(log.take().len(), 1);
}
