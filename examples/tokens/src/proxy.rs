//! The proxy: reserves an estimate before it asks the model, and settles the usage after the last
//! event.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body::Frame;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use leaparray::flow::settle::{CostLimiter, CostReservation, PerRequest, Settle};
use leaparray::flow::{AllOf, FixedWindowLimiter, Keyed, LimiterExt, Named, Refusal, TokenBucket};
use leaparray::{Clock, ManualClock};
use serde_json::Value;

use crate::model::tokens_of;
use crate::usage::Scanner;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const REQUESTS_OF_CLIENT: u64 = 5;
pub(crate) const TOKENS_OF_CLIENT: u64 = 1_000;
pub(crate) const TOKENS_OF_ALL: u64 = 1_800;
const CLIENTS: usize = 10_000;

type Costs = CostLimiter<ManualClock>;
type MakeCosts = Box<dyn Fn() -> Costs + Send + Sync>;

/// The reservations of a request: none of the limit of requests, whose permits are spent at once.
type Reserved = ((), CostReservation<Arc<Costs>>, CostReservation<Arc<Costs>>);

/// The limits of each client, and of all together.
pub(crate) struct Limits {
    clock: ManualClock,
    requests: Keyed<String, FixedWindowLimiter<ManualClock>>,
    tokens: Keyed<String, (MakeCosts, ManualClock)>,
    pub(crate) of_all: Named<Arc<Costs>>,
    /// The names of the limits of a client.
    names: [Named<Option<TokenBucket>>; 2],
}

impl Limits {
    pub(crate) fn new(clock: ManualClock) -> Result<Self, Box<dyn std::error::Error>> {
        let requests = FixedWindowLimiter::with_clock(MINUTE, REQUESTS_OF_CLIENT, clock.clone())?;
        let of_all = Costs::with_clock(MINUTE, TOKENS_OF_ALL, clock.clone())?;
        let make: MakeCosts = {
            let clock = clock.clone();
            let new = move || Costs::with_clock(MINUTE, TOKENS_OF_CLIENT, clock.clone());
            Box::new(move || new().expect("the same window as of all"))
        };
        Ok(Self {
            requests: Keyed::new(requests, CLIENTS)?,
            tokens: Keyed::new((make, clock.clone()), CLIENTS)?,
            of_all: of_all.named("tokens of all"),
            names: ["requests of a client", "tokens of a client"]
                .map(|name| None::<TokenBucket>.named(name)),
            clock,
        })
    }

    /// Reserves an estimate over all limits, or over none of them.
    fn reserve(&self, client: &String, estimate: u64) -> Result<Reserved, Refusal> {
        let [requests, tokens] = &self.names;
        let limit = AllOf::new((
            PerRequest::new(requests.over(self.requests.of_key(client))),
            tokens.over(self.tokens.of_key(client)),
            &self.of_all,
        ));
        limit.try_acquire_many(estimate).at_once()
    }
}

pub(crate) struct Proxy {
    pub(crate) limits: Limits,
    model: SocketAddr,
    client: Client<HttpConnector, Body>,
}

impl Proxy {
    pub(crate) fn new(limits: Limits, model: SocketAddr) -> Self {
        Self { limits, model, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    pub(crate) fn router(self: Arc<Self>) -> Router {
        Router::new().route("/v1/chat", post(chat)).with_state(self)
    }
}

async fn chat(State(proxy): State<Arc<Proxy>>, headers: HeaderMap, body: Bytes) -> Response {
    let Some(client) = headers.get("x-api-key").and_then(|key| key.to_str().ok()) else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (Some(prompt), Some(most)) = (request["prompt"].as_str(), request["max_tokens"].as_u64())
    else {
        return (StatusCode::BAD_REQUEST, "needs `prompt` and `max_tokens`").into_response();
    };
    let prompt = tokens_of(prompt);
    let clock = proxy.limits.clock.clone();
    let reserved = match proxy.limits.reserve(&client.to_owned(), prompt.saturating_add(most)) {
        Ok(reserved) => reserved,
        Err(refusal) => return refuse(&refusal, &clock),
    };
    let request = Request::post(format!("http://{}/v1/chat", proxy.model)).body(Body::from(body));
    let answer = match request {
        Ok(request) => proxy.client.request(request).await,
        Err(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            if error.is_connect() {
                // The model has not got the request: nothing was used. Otherwise, that is not
                // known, and the estimate stands.
                reserved.settle_at(clock.now(), 0);
            }
            return StatusCode::BAD_GATEWAY.into_response();
        }
    };
    let (status, inner) = (answer.status(), answer.into_body());
    let (scanner, reserved) = (Scanner::default(), Some(reserved));
    let stream = Metered { inner, scanner, prompt, reserved, clock };
    (status, [(CONTENT_TYPE, "text/event-stream")], Body::new(stream)).into_response()
}

fn refuse(refusal: &Refusal, clock: &ManualClock) -> Response {
    let text = refusal.to_string();
    match refusal.retry_after(clock.now()) {
        Some(after) => {
            let headers = [(RETRY_AFTER, after.as_secs().to_string())];
            (StatusCode::TOO_MANY_REQUESTS, headers, text).into_response()
        }
        None => (StatusCode::TOO_MANY_REQUESTS, text).into_response(),
    }
}

/// The stream of an answer on its way to the client.
///
/// - If it ends, or is cut off by the model, the reservations are settled: with the usage, or with
///   the tokens of the prompt and of the part of the answer that has arrived.
/// - If the client has gone away, how much the model goes on to produce is not known: the estimate
///   stands, unless the usage has arrived.
struct Metered {
    inner: Incoming,
    scanner: Scanner,
    prompt: u64,
    reserved: Option<Reserved>,
    clock: ManualClock,
}

impl Metered {
    fn settle(&mut self, cost: u64) {
        if let Some(reserved) = self.reserved.take() {
            reserved.settle_at(self.clock.now(), cost);
        }
    }
}

impl http_body::Body for Metered {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = std::task::ready!(Pin::new(&mut self.inner).poll_frame(context));
        if let Some(Ok(frame)) = &polled {
            self.scanner.read(frame.data_ref().map_or(&[], |piece| piece));
        } else {
            let known = self.prompt.saturating_add(self.scanner.deltas);
            let cost = self.scanner.usage.unwrap_or(known);
            self.settle(cost);
        }
        Poll::Ready(polled)
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        if let Some(usage) = self.scanner.usage {
            self.settle(usage);
        }
    }
}
