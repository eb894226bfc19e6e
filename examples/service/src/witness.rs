//! A middleware around all routes, which counts every request without the crate.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};

use crate::route::Route;
use crate::tally::{Ending, Tally};

/// Counts a request to a route when its response has ended, or when it is dropped before that.
pub(crate) async fn witness(
    State(tally): State<Arc<Mutex<Tally>>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(route) = Route::of_path(request.uri().path()) else {
        return next.run(request).await;
    };
    let is_head = request.method() == Method::HEAD;
    let mut witness = Witness { tally, route, ending: Ending::Aborted };
    let response = next.run(request).await;
    let status = response.status().as_u16();
    if status >= 500 {
        // A failure, whatever becomes of the body.
        witness.ending = Ending::Status(status);
    }
    if is_head || response.body().is_end_stream() {
        witness.ending = Ending::Status(status);
        return response;
    }
    response.map(|body| Body::new(Witnessed { body, status, witness }))
}

/// Counts the ending of a request when it is dropped: aborted, unless another one is known.
struct Witness {
    tally: Arc<Mutex<Tally>>,
    route: Route,
    ending: Ending,
}

impl Drop for Witness {
    fn drop(&mut self) {
        let mut tally = self.tally.lock().expect("a count does not panic");
        tally.count(self.route, self.ending.clone());
    }
}

/// A body that notes its end. All bodies of the routes say which frame is their last.
struct Witnessed {
    body: Body,
    status: u16,
    witness: Witness,
}

impl HttpBody for Witnessed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if self.body.is_end_stream() {
            self.witness.ending = Ending::Status(self.status);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
