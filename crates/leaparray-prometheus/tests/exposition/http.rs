//! Expositions over HTTP: what is sent is what the client's encoder writes, in bounded memory and
//! time.

use std::fmt;
use std::io::Read;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use axum::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use leaparray_prometheus::{Exposition, ExpositionBody, RegistryCollector};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, prometheus_protobuf, prometheus_text, text,
};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;

use super::{registry, succeed};

/// The bytes of a chunk.
const CHUNK: usize = 65_536;

fn headers<const N: usize>(pairs: [(HeaderName, &'static str); N]) -> HeaderMap {
    pairs.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect()
}

async fn bytes(body: ExpositionBody) -> Vec<u8> {
    body.collect().await.unwrap().to_bytes().to_vec()
}

fn exposed(collector: impl Collector) -> Registry {
    let mut exposed = Registry::default();
    exposed.register_collector(Box::new(collector));
    exposed
}

/// A number of counters of which each has a name of some hundred bytes.
#[derive(Debug)]
struct Many {
    count: usize,
    /// Those that were written.
    written: Arc<AtomicUsize>,
    /// Told when all were written, or the writer failed.
    ended: mpsc::Sender<()>,
    fails: bool,
}

/// The least bytes of a counter of [`Many`].
const BYTES: usize = 200;

impl Many {
    fn new(count: usize) -> (Self, Arc<AtomicUsize>, mpsc::Receiver<()>) {
        let (ended, is_ended) = mpsc::channel();
        let written = Arc::default();
        (Self { count, written: Arc::clone(&written), ended, fails: false }, written, is_ended)
    }
}

impl Collector for Many {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let result = (0..self.count).try_for_each(|number| {
            let name = format!("counter_{number:0BYTES$}");
            let counter = ConstCounter::new(1_u64);
            let metric = encoder.encode_descriptor(&name, "", None, counter.metric_type())?;
            counter.encode(metric)?;
            self.written.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let _ = self.ended.send(());
        if self.fails { Err(fmt::Error) } else { result }
    }
}

#[tokio::test]
async fn text_is_that_of_the_encoder() {
    let metrics = registry();
    succeed(&metrics, "GET /orders", 3);
    let exposed = exposed(RegistryCollector::new(Arc::clone(&metrics)));
    let [mut open_metrics, mut prometheus] = [String::new(), String::new()];
    text::encode(&mut open_metrics, &exposed).unwrap();
    prometheus_text::encode(&mut prometheus, &exposed).unwrap();
    let protobuf = prometheus_protobuf::encode_to_vec(&exposed).unwrap();
    let exposition = Exposition::new(exposed)
        .with_protobuf(|registry| prometheus_protobuf::encode_to_vec(registry).ok());
    let accept = "application/vnd.google.protobuf;encoding=delimited";
    for (accept, media_type, expected) in [
        ("*/*", "application/openmetrics-text; version=1.0.0", open_metrics.into_bytes()),
        ("text/plain", "text/plain; version=0.0.4", prometheus.into_bytes()),
        (accept, "application/vnd.google.protobuf; proto=io.prom", protobuf),
    ] {
        let plain = exposition.respond(&headers([(ACCEPT, accept)]));
        assert_eq!(plain.headers().get(CONTENT_ENCODING), None);
        assert!(plain.headers()[CONTENT_TYPE].to_str().unwrap().starts_with(media_type));
        assert_eq!(bytes(plain.into_body()).await, expected, "{accept}");

        let zipped = exposition.respond(&headers([(ACCEPT, accept), (ACCEPT_ENCODING, "gzip")]));
        assert_eq!(zipped.headers()[CONTENT_ENCODING], "gzip");
        let zipped = bytes(zipped.into_body()).await;
        let mut unzipped = Vec::new();
        flate2::read::GzDecoder::new(&*zipped).read_to_end(&mut unzipped).unwrap();
        assert_eq!(unzipped, expected, "{accept}");
        assert!(zipped.len() < expected.len() / 2, "{} of {}", zipped.len(), expected.len());
    }
}

/// Two chunks wait for the client, beside the one that is being written.
#[tokio::test(start_paused = true)]
async fn encoder_is_at_most_three_chunks_ahead_of_the_client() {
    let (many, written, ended) = Many::new(20_000);
    let exposition = Exposition::new(exposed(many));
    let mut body = exposition.respond(&HeaderMap::new()).into_body();
    // It writes as far as it may, and is then given up.
    tokio::time::advance(Duration::from_secs(61)).await;
    ended.recv_timeout(Duration::from_secs(30)).unwrap();
    let mut taken = 0;
    while let Some(Ok(frame)) = body.frame().await {
        taken += frame.into_data().unwrap().len();
    }
    assert_eq!(taken, 2 * CHUNK);
    // A name is written at least twice: for its type, and for its value.
    let written = 2 * BYTES * written.load(Ordering::SeqCst);
    assert!(written <= 3 * CHUNK, "{written} bytes");
}

/// Takes a body to its end. Returns whether it was whole.
async fn is_whole(body: ExpositionBody) -> bool {
    let mut body = pin!(body);
    loop {
        match body.frame().await {
            Some(Ok(_)) => {}
            Some(Err(_)) => {
                assert!(body.frame().await.is_none(), "an error is the last");
                return false;
            }
            None => return true,
        }
    }
}

#[tokio::test]
async fn body_of_a_collector_that_fails_is_an_error() {
    for encoding in ["gzip", "identity"] {
        let (mut many, ..) = Many::new(10);
        many.fails = true;
        let exposition = Exposition::new(exposed(many));
        let body = exposition.respond(&headers([(ACCEPT_ENCODING, encoding)])).into_body();
        assert!(!is_whole(body).await);
    }
}

#[tokio::test(start_paused = true)]
async fn four_are_written_at_once_and_a_client_that_takes_nothing_is_given_up() {
    let (many, _written, ended) = Many::new(20_000);
    let exposition = Exposition::new(exposed(many));
    let respond = || exposition.respond(&headers([(ACCEPT_ENCODING, "identity")]));
    let slow: Vec<_> = (0..4).map(|_| respond().into_body()).collect();
    let refused = respond();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(bytes(refused.into_body()).await, b"");

    tokio::time::advance(Duration::from_secs(61)).await;
    // A thread that has not yet waited writes on if its body is taken now, also after its time.
    for _ in &slow {
        ended.recv_timeout(Duration::from_secs(30)).unwrap();
    }
    for body in slow {
        assert!(!is_whole(body).await);
    }
    assert!(is_whole(free_place(&respond).await).await);
}

/// Responds once there is a place. A place is free soon after its exposition has ended.
async fn free_place(respond: &dyn Fn() -> Response<ExpositionBody>) -> ExpositionBody {
    loop {
        let response = respond();
        if response.status() == StatusCode::OK {
            return response.into_body();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn exposition_whose_body_is_dropped_ends() {
    let (many, _written, ended) = Many::new(20_000);
    let exposition = Exposition::new(exposed(many));
    let respond = || exposition.respond(&HeaderMap::new());
    let mut bodies: Vec<_> = (0..4).map(|_| respond().into_body()).collect();
    let mut first: Pin<&mut ExpositionBody> = Pin::new(&mut bodies[0]);
    assert!(first.frame().await.unwrap().is_ok());
    drop(bodies);
    for _ in 0..4 {
        ended.recv_timeout(Duration::from_secs(30)).unwrap();
    }
    assert!(is_whole(free_place(&respond).await).await);
}

/// A client that takes nothing does not hold up the scrape of another.
#[tokio::test]
async fn slow_client_delays_no_other() {
    let metrics = registry();
    for number in 0..2_000 {
        succeed(&metrics, &format!("GET /orders/{number}"), 1);
    }
    let exposition = Exposition::new(exposed(RegistryCollector::new(Arc::clone(&metrics))));
    let mut slow = exposition.respond(&HeaderMap::new()).into_body();
    // It is being written.
    assert!(slow.frame().await.unwrap().is_ok());
    let other = bytes(exposition.respond(&HeaderMap::new()).into_body());
    // Sooner than the slow one is given up. Only a failure takes so long.
    let text = tokio::time::timeout(Duration::from_secs(30), other).await.unwrap();
    assert!(text.ends_with(b"# EOF\n") && text.len() > 4 * CHUNK);
    drop(slow);
}

#[test]
fn body_without_timers_is_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let exposition = Exposition::new(Registry::default());
    runtime.block_on(async {
        let response = exposition.respond(&HeaderMap::new());
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body().collect().await.unwrap_err();
    });
}
