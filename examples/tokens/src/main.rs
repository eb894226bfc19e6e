//! A proxy before a language model that streams. It limits the requests and the tokens of a minute,
//! of each client and of all together. How many tokens an answer has is known with its last event.
//!
//! ```text
//! cargo run -p example-tokens
//! ```

#[path = "../../clients/src/arguments.rs"]
mod arguments;
mod model;
mod proxy;
mod usage;

use std::error::Error;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use leaparray::flow::settle::CostBooks;
use leaparray::{Clock, ManualClock, Timestamp};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use proxy::{Limits, Proxy};

/// How long the whole run may take.
const LONGEST: Duration = Duration::from_secs(60);

/// The minutes pass on a clock that is advanced, so that the run takes no minute.
struct Run {
    clock: ManualClock,
    proxy: Arc<Proxy>,
    address: SocketAddr,
    client: Client<HttpConnector, Body>,
}

/// The answer that a client has received.
struct Answer {
    status: StatusCode,
    retry_after: Option<u64>,
    text: String,
    is_whole: bool,
}

impl Run {
    async fn start() -> Result<Self, Box<dyn Error>> {
        let model = serve(model::model()).await?;
        let clock = ManualClock::new(Timestamp::from_secs(6_000));
        let proxy = Arc::new(Proxy::new(Limits::new(clock.clone())?, model));
        let address = serve(Arc::clone(&proxy).router()).await?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        Ok(Self { clock, proxy, address, client })
    }

    /// Asks with a prompt of ten tokens.
    async fn begin(
        &self,
        client: &str,
        mut request: Value,
    ) -> Result<hyper::Response<Incoming>, Box<dyn Error>> {
        request["prompt"] = json!("one two three four five six seven eight nine ten");
        let request = Request::post(format!("http://{}/v1/chat", self.address))
            .header("x-api-key", client)
            .body(Body::from(request.to_string()))?;
        Ok(self.client.request(request).await?)
    }

    async fn ask(&self, client: &str, request: Value) -> Result<Answer, Box<dyn Error>> {
        let response = self.begin(client, request).await?;
        let status = response.status();
        let retry_after = response.headers().get("retry-after");
        let retry_after = retry_after.and_then(|it| it.to_str().ok()?.parse().ok());
        let (mut body, mut text) = (response.into_body(), Vec::new());
        let is_whole = loop {
            match poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
                Some(Ok(frame)) => text.extend(frame.data_ref().into_iter().flatten()),
                Some(Err(_)) => break false,
                None => break true,
            }
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(Answer { status, retry_after, text, is_whole })
    }

    /// Returns the books of all clients, once every request has ended.
    async fn books(&self) -> CostBooks {
        loop {
            let books = self.proxy.limits.of_all.limiter().books_at(self.clock.now());
            if books.in_flight == 0 {
                return books;
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    async fn show(&self, what: &str) -> CostBooks {
        let books = self.books().await;
        println!("{what:64} {:>6} charged, {:>4} owed", books.charged, books.debt);
        let left = books.settled + books.reserved + books.unused;
        assert_eq!(left, u128::from(books.charged) + books.expired + books.debt, "conserved");
        books
    }
}

/// Serves on loopback until the end of the process.
async fn serve(router: Router) -> Result<SocketAddr, std::io::Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async { axum::serve(listener, router).await });
    Ok(address)
}

async fn run() -> Result<(), Box<dyn Error>> {
    let run = Run::start().await?;
    // 510 are reserved, and 100 settled.
    let answer = run.ask("ann", json!({ "max_tokens": 500, "answer": 90 })).await?;
    assert!(answer.status.is_success() && answer.is_whole && answer.text.contains("usage"));
    let books = run.show("ann: an estimate of 510, a usage of 100").await;
    assert_eq!((books.charged, books.settled), (100, 100));

    // The model ignores the maximum: 60 are reserved, and 1,210 used. Bob may use 1,000.
    let answer = run.ask("bob", json!({ "max_tokens": 50, "answer": 1_200 })).await?;
    assert!(answer.is_whole);
    assert_eq!(run.show("bob: an estimate of 60, a usage of 1,210").await.charged, 1_310);
    let answer = run.ask("bob", json!({ "max_tokens": 50, "answer": 1 })).await?;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(answer.text.contains("tokens of a client"), "{}", answer.text);
    let retry_after = answer.retry_after.expect("the time is known");
    println!("bob: 429, asks again in {retry_after} s: {}", answer.text);

    // Cut off after 30 tokens: there is no usage, and 10 + 30 are known.
    let cut = json!({ "max_tokens": 400, "answer": 90, "cut_after": 30 });
    let answer = run.ask("cat", cut).await?;
    assert!(answer.status.is_success() && !answer.is_whole && !answer.text.contains("usage"));
    let books = run.show("cat: an estimate of 410, cut off by the model after 30 tokens").await;
    assert_eq!(books.charged, 1_350);

    // The client goes away in the middle, and the model may go on: the estimate stands.
    let stalls = json!({ "max_tokens": 300, "answer": 90, "stall_after": 20 });
    let mut body = run.begin("dan", stalls).await?.into_body();
    assert!(poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await.is_some());
    drop(body);
    let books = run.show("dan: an estimate of 310, gone in the middle").await;
    assert_eq!((books.charged, books.settled), (1_660, 1_660));

    // 140 of 1,800 are left for all, although eve has used nothing.
    let answer = run.ask("eve", json!({ "max_tokens": 131, "answer": 1 })).await?;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(answer.text.contains("tokens of all"), "{}", answer.text);
    println!("eve: 429, asks again in {} s: {}", answer.retry_after.unwrap_or(0), answer.text);
    let never = run.ask("eve", json!({ "max_tokens": 5_000, "answer": 1 })).await?;
    assert_eq!((never.status, never.retry_after), (StatusCode::TOO_MANY_REQUESTS, None));

    // Five requests in a minute, however cheap they are.
    for _ in 0..5 {
        let answer = run.ask("fay", json!({ "max_tokens": 2, "answer": 1 })).await?;
        assert!(answer.is_whole, "{}", answer.text);
    }
    let answer = run.ask("fay", json!({ "max_tokens": 2, "answer": 1 })).await?;
    assert!(answer.text.contains("requests of a client"), "{}", answer.text);
    run.show("fay: five requests for 11 each, and the sixth is refused").await;

    // When the client was told to ask again, what bob owes is charged: 210 of his 1,000.
    run.clock.advance(Duration::from_secs(retry_after));
    let answer = run.ask("bob", json!({ "max_tokens": 781, "answer": 1 })).await?;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    let answer = run.ask("bob", json!({ "max_tokens": 780, "answer": 1 })).await?;
    assert!(answer.is_whole, "{}", answer.text);
    assert_eq!(run.show("bob: a minute later, 790 of 1,000 are left").await.charged, 11);
    Ok(())
}

fn main() -> ExitCode {
    if let Some(code) = arguments::exit_code() {
        return code;
    }
    match bounded() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            arguments::complain(error);
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn bounded() -> Result<(), Box<dyn Error>> {
    timeout(LONGEST, run()).await?
}

#[cfg(test)]
mod tests {
    #[test]
    fn costs_are_settled() {
        super::bounded().unwrap();
    }
}
