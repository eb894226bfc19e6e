//! A service on loopback, and a page that tells how its requests ended. Prints its address, and
//! serves until it is killed.
//!
//! | path | answer |
//! |---|---|
//! | `/done` | a short text |
//! | `/waits` | none |
//! | `/stream` | a line every 50 ms, without end |
//! | `/large` | 64 MiB in frames of 16 KiB |
//! | `/upload` | the number of bytes, after the whole body |
//! | `/endings` | for each path: successes, exceptions, cancelled requests, and requests in flight |
//! | `/otlp` | a message of OpenTelemetry with the counts of all paths, as its protocol has it |
//! | `/leaparray` | the live page |

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::error::Error;
use std::future::pending;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::{get, post};
use futures_util::stream::{self, StreamExt};
use leaparray::{HistogramConfig, MetricEvent, NodeConfig, Registry, RegistryConfig};
use leaparray_opentelemetry::OtlpSource;
use leaparray_tower::{MatchedRoute, ResourceLayer};
use leaparray_web::Access;
use prost::Message;
use tokio::net::TcpListener;
use tokio::time::sleep;

const FRAME: [u8; 16 << 10] = [b'x'; 16 << 10];
const FRAMES: usize = 4 << 10;

async fn line() -> Bytes {
    sleep(Duration::from_millis(50)).await;
    Bytes::from_static(b"line\n")
}

fn frames(frames: impl stream::Stream<Item = Bytes> + Send + 'static) -> Body {
    Body::from_stream(frames.map(Ok::<_, Infallible>))
}

fn endings(registry: &Registry) -> String {
    let line = |name: &str| {
        let [success, exception, cancelled, in_flight] = match registry.get(name) {
            None => [0; 4],
            Some(resource) => {
                let totals = resource.lifetime();
                let [success, exception, cancelled] =
                    [MetricEvent::Success, MetricEvent::Exception, MetricEvent::Cancelled]
                        .map(|event| totals.sum(event));
                [success, exception, cancelled, resource.concurrency()]
            }
        };
        format!("{name} {success} {exception} {cancelled} {in_flight}\n")
    };
    ["GET /done", "GET /waits", "GET /stream", "GET /large", "POST /upload"].map(line).concat()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    let registry = Arc::new(Registry::with_config(RegistryConfig::default().node(node)));
    let recorded = Router::new()
        .route("/done", get(async || "done\n"))
        .route("/waits", get(async || pending::<()>().await))
        .route("/stream", get(async || frames(stream::repeat(()).then(|()| line()))))
        .route(
            "/large",
            get(async || frames(stream::repeat(Bytes::from_static(&FRAME)).take(FRAMES))),
        )
        .route("/upload", post(async |body: Bytes| body.len().to_string()))
        .layer(axum::extract::DefaultBodyLimit::max(64 << 20))
        .layer(ResourceLayer::new(Arc::clone(&registry), MatchedRoute)?);
    let told = Arc::clone(&registry);
    let source = Arc::new(OtlpSource::new(Arc::clone(&registry)));
    let page = leaparray_web::service(registry, Access::anyone());
    let app = Router::new()
        .merge(recorded)
        .route("/endings", get(async move || endings(&told)))
        .route("/otlp", get(async move || source.request().encode_to_vec()))
        .nest_service("/leaparray", page);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}
