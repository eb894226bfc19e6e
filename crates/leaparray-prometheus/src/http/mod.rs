//! Expositions over HTTP.
//!
//! A client library writes an exposition from its begin to its end, and a body is polled. So a
//! thread for blocking work writes, into a channel of a few chunks, and waits while the channel is
//! full. What is in memory at a time does not depend on the length of the text.
//!
//! A chunk is never lost: the channel ends with [`Part::End`], so a body that ends without it is
//! an error of the transfer, and not a shorter exposition.

mod accepts;
mod body;
mod chunks;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use accepts::{Accepts, Format};
use body::Part;
pub use body::{ExpositionBody, ExpositionError};
use chunks::Chunks;

/// The most expositions that are written at once.
const AT_ONCE: usize = 4;

/// The longest time of an exposition: the longest timeout of a scrape that is usual.
const LONGEST: Duration = Duration::from_secs(60);

/// The chunks that are written before the client takes them, beside the one that is being written.
const AHEAD: usize = 2;

type Protobuf = Arc<dyn Fn(&Registry) -> Option<Vec<u8>> + Send + Sync>;

/// Serves the metrics of a registry of `prometheus-client` over HTTP: a stream of chunks of 64 KiB,
/// by gzip if the client takes it.
///
/// The format is `OpenMetrics` 1.0.0, or the text format 0.0.4 of Prometheus if the client prefers
/// it. A thread for blocking work writes it, so that no other task of the runtime waits. It is at
/// most three chunks ahead of the client: beside the reading of the registry, a scrape takes as
/// much memory for 10,000 resources as for ten.
///
/// At most four expositions are written at once: a further one is answered with the status 503. One
/// that a client does not take within 60 s is given up. Its body then ends with an error, and not
/// as if it were whole.
///
/// Clones are cheap, and share the registry and the four places.
///
/// ```
/// use http::HeaderMap;
/// use http_body_util::BodyExt;
/// use leaparray::Registry;
/// use leaparray_prometheus::{Exposition, RegistryCollector};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let registry = Arc::new(Registry::new());
/// registry.resource("GET /orders")?.enter().success();
/// let mut exposed = prometheus_client::registry::Registry::default();
/// exposed.register_collector(Box::new(RegistryCollector::new(registry)));
/// let exposition = Exposition::new(exposed);
///
/// // As a handler of axum: `get(async move |headers: HeaderMap| exposition.respond(&headers))`.
/// let response = exposition.respond(&HeaderMap::new());
/// let text = response.into_body().collect().await?.to_bytes();
/// assert!(text.ends_with(b"# EOF\n"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Exposition {
    registry: Arc<Registry>,
    places: Arc<Semaphore>,
    protobuf: Option<Protobuf>,
}

impl Exposition {
    /// Creates an exposition of the metrics of a registry.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        Self { registry: Arc::new(registry), places, protobuf: None }
    }

    /// Also answers in Protocol Buffers, to clients that ask for them: Prometheus does so if it
    /// scrapes native histograms. `encode` returns the delimited messages, or `None` if it fails:
    ///
    /// ```
    /// use http::HeaderMap;
    /// use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
    /// use leaparray_prometheus::Exposition;
    /// use prometheus_client::encoding::prometheus_protobuf::encode_to_vec;
    /// use prometheus_client::registry::Registry;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let exposition = Exposition::new(Registry::default())
    ///     .with_protobuf(|registry| encode_to_vec(registry).ok());
    /// let accept = HeaderValue::from_static(
    ///     "application/vnd.google.protobuf;encoding=delimited,text/plain;q=0.5",
    /// );
    /// let response = exposition.respond(&HeaderMap::from_iter([(ACCEPT, accept)]));
    /// let format = response.headers()[CONTENT_TYPE].to_str()?;
    /// assert!(format.starts_with("application/vnd.google.protobuf"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// `prometheus-client` has them with its feature `prometheus_protobuf`, which needs `protoc`
    /// for its build, or its feature `protobuf-protox`. It makes them as a whole, so their memory
    /// is in proportion to the number of resources.
    #[must_use]
    pub fn with_protobuf(
        mut self,
        encode: impl Fn(&Registry) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        self.protobuf = Some(Arc::new(encode));
        self
    }

    /// Answers a request with these headers, of which it reads `Accept` and `Accept-Encoding`.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime. Within one without timers, the thread that writes panics, and
    /// the body ends with an error.
    #[must_use]
    pub fn respond(&self, headers: &HeaderMap) -> Response<ExpositionBody> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return too_many();
        };
        let accepts = Accepts::of(headers, self.protobuf.is_some());
        let (parts, received) = mpsc::channel(AHEAD);
        let chunks = Chunks::new(parts, Instant::now() + LONGEST);
        let this = self.clone();
        tokio::task::spawn_blocking(move || {
            let _place = place;
            // If it fails, the channel ends without an end, which is the error of the body.
            let _: io::Result<()> =
                chunks.write(accepts.gzip, |out| this.encode(accepts.format, out));
        });
        let mut response = Response::new(ExpositionBody::new(received));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(accepts.format.media_type()));
        headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
        if accepts.gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }

    fn encode(&self, format: Format, out: &mut dyn io::Write) -> io::Result<()> {
        let mut text = Text(out);
        let encoded = match (format, &self.protobuf) {
            (Format::Protobuf, Some(encode)) => {
                let messages = encode(&self.registry).ok_or(io::ErrorKind::InvalidData)?;
                return out.write_all(&messages);
            }
            (Format::Prometheus, _) => prometheus_text::encode(&mut text, &self.registry),
            _ => text::encode(&mut text, &self.registry),
        };
        encoded.map_err(io::Error::other)
    }
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exposition").field("registry", &self.registry).finish_non_exhaustive()
    }
}

/// The answer while as many expositions are written as may be.
fn too_many() -> Response<ExpositionBody> {
    let (parts, received) = mpsc::channel(1);
    let _ = parts.try_send(Part::End);
    let mut response = Response::new(ExpositionBody::new(received));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// A writer of text on one of bytes.
struct Text<'a>(&'a mut dyn io::Write);

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_all(text.as_bytes()).map_err(|_| fmt::Error)
    }
}
