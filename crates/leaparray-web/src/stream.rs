//! `/stream`: the messages as server-sent events or as JSON lines.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::Frame;
use leaparray::Clock;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::format::ByeReason;
use crate::hub::{Encoding, Hub, NotJoined, Target, Viewer, Viewers, Wish};

/// The time without a message after which an empty one is sent, so that a proxy keeps the
/// connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The query of a stream.
#[derive(Debug, Default)]
struct Parameters {
    resource: Option<String>,
    context: Option<String>,
    since: Option<String>,
    only: Option<String>,
}

impl Parameters {
    /// Parses a query. Of several values of a parameter, the last one counts. Unknown parameters
    /// are ignored.
    fn of(query: &str) -> Self {
        let mut parameters = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let parameter = match &*name {
                "resource" => &mut parameters.resource,
                "context" => &mut parameters.context,
                "since" => &mut parameters.since,
                "only" => &mut parameters.only,
                _ => continue,
            };
            *parameter = Some(value.into_owned());
        }
        parameters
    }
}

pub(crate) async fn get<C>(
    State(hub): State<Arc<Hub<C>>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response
where
    C: Clock + Clone + Send + Sync + 'static,
{
    let encoding = encoding(&headers);
    let parameters = Parameters::of(query.as_deref().unwrap_or_default());
    let last_event = headers.get("last-event-id").and_then(|it| it.to_str().ok());
    let ids = [parameters.since.as_deref(), last_event];
    let Parameters { resource, context, .. } = &parameters;
    let target = resource.as_ref().map(|resource| Target {
        resource: resource.as_str().into(),
        context: context.as_deref().map(Into::into),
    });
    let since = ids.into_iter().flatten().filter_map(|id| hub.identity().second_of(id)).max();
    let is_light = parameters.only.as_deref() == Some("totals");
    match hub.join(Wish { encoding, since, target, is_light }) {
        Ok(viewer) => respond(Stream::new(hub.viewers(), viewer, hub.life()), encoding),
        Err(reason) => refuse(reason),
    }
}

fn encoding(headers: &HeaderMap) -> Encoding {
    let accept = headers.get_all(header::ACCEPT);
    let mut types = accept.iter().filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(','));
    let wants_events = types.any(|it| {
        let media_type = it.split(';').next().unwrap_or_default().trim();
        media_type.eq_ignore_ascii_case("text/event-stream")
    });
    if wants_events { Encoding::Events } else { Encoding::Lines }
}

fn respond(stream: Stream, encoding: Encoding) -> Response {
    let content_type = match encoding {
        Encoding::Events => "text/event-stream",
        Encoding::Lines => "application/x-ndjson",
    };
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::VARY, "accept"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::new(stream)).into_response()
}

fn refuse(reason: NotJoined) -> Response {
    let text = match reason {
        NotJoined::Full => "As many streams are open as this page allows.\n",
        NotJoined::Closed => "The server ends.\n",
    };
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], text).into_response()
}

/// The body of a stream: the messages of a viewer, until its life is over.
struct Stream {
    viewers: Arc<Viewers>,
    viewer: Arc<Viewer>,
    keep_alive: Pin<Box<Sleep>>,
    /// `None` if the end is further away than an instant can tell.
    end: Option<Pin<Box<Sleep>>>,
    has_ended: bool,
}

impl Stream {
    fn new(viewers: &Arc<Viewers>, viewer: Arc<Viewer>, life: Duration) -> Self {
        // Streams that began together, as after a restart, do not end together.
        let most = (life / 10).min(Duration::from_secs(3_600));
        let life = life.saturating_sub(most.mul_f64(fastrand::f64()));
        let now = Instant::now();
        Self {
            viewers: Arc::clone(viewers),
            viewer,
            keep_alive: Box::pin(sleep_until(now + KEEP_ALIVE)),
            end: now.checked_add(life).map(|end| Box::pin(sleep_until(end))),
            has_ended: false,
        }
    }
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if self.end.as_mut().is_some_and(|end| end.as_mut().poll(context).is_ready()) {
            self.viewer.end(ByeReason::Expired);
        }
        let data = match self.viewer.poll_next(context) {
            Poll::Ready(Ok(data)) => data,
            Poll::Ready(Err(bye)) => {
                self.has_ended = true;
                bye
            }
            Poll::Pending => {
                ready!(self.keep_alive.as_mut().poll(context));
                self.viewer.encoding().keep_alive()
            }
        };
        let next = Instant::now() + KEEP_ALIVE;
        self.keep_alive.as_mut().reset(next);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.viewers.leave(&self.viewer);
    }
}
