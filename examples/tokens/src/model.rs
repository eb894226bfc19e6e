//! A language model that streams: a stand-in, which answers as the request says.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::time::{Sleep, sleep};

/// The time between the last token and the failure of the model.
const FAILS_AFTER: Duration = Duration::from_millis(20);

/// The tokens of a prompt: here, its words.
pub(crate) fn tokens_of(prompt: &str) -> u64 {
    prompt.split_whitespace().count() as u64
}

/// The model: it answers with as many tokens as `answer` says, and not with `max_tokens` at most.
/// After `cut_after` tokens it fails, and after `stall_after` it sends nothing any more.
pub(crate) fn model() -> Router {
    Router::new().route("/v1/chat", post(answer))
}

async fn answer(request: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&request).unwrap_or_default();
    let number = |name: &str| request[name].as_u64();
    let prompt = tokens_of(request["prompt"].as_str().unwrap_or_default());
    let events = Events {
        sent: 0,
        answer: number("answer").unwrap_or_default(),
        prompt,
        cut_after: number("cut_after"),
        stall_after: number("stall_after"),
        failure: None,
    };
    ([(CONTENT_TYPE, "text/event-stream")], Body::new(events)).into_response()
}

struct Events {
    sent: u64,
    answer: u64,
    prompt: u64,
    cut_after: Option<u64>,
    stall_after: Option<u64>,
    failure: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.stall_after == Some(self.sent) {
            return Poll::Pending;
        }
        if self.cut_after == Some(self.sent) {
            // The events before it leave the server while the body is pending.
            let failure = self.failure.get_or_insert_with(|| Box::pin(sleep(FAILS_AFTER)));
            std::task::ready!(failure.as_mut().poll(context));
            return Poll::Ready(Some(Err(io::Error::other("the model has failed"))));
        }
        let event = match self.sent {
            sent if sent < self.answer => json!({ "delta": "token" }),
            sent if sent == self.answer => {
                json!({ "usage": { "total_tokens": self.prompt + self.answer } })
            }
            _ => return Poll::Ready(None),
        };
        self.sent += 1;
        Poll::Ready(Some(Ok(Frame::data(format!("data: {event}\n\n").into()))))
    }
}
