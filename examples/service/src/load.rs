//! The bundled client: sends requests over loopback connections, and counts the answers.

use std::error::Error;
use std::iter;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::route::Route;
use crate::tally::{Ending, Tally};

/// The timeout of a request. Only a broken service reaches it, by never answering.
const MAX_WAIT: Duration = Duration::from_secs(5);

type Answer = Result<u16, Box<dyn Error + Send + Sync>>;

/// A running load.
pub(crate) struct Load {
    stop: watch::Sender<bool>,
    connections: JoinSet<Tally>,
}

impl Load {
    pub(crate) fn start(address: SocketAddr, connections: u16) -> Self {
        let (stop, stopped) = watch::channel(false);
        let drive = |first: u16| drive(address, first.into(), stopped.clone());
        Self { stop, connections: (0..connections).map(drive).collect() }
    }

    /// Sends no further requests, waits for those in flight, and returns the client's counts.
    pub(crate) async fn stop(self) -> Tally {
        self.stop.send_replace(true);
        let mut sum = Tally::default();
        for tally in self.connections.join_all().await {
            sum.merge(tally);
        }
        sum
    }
}

/// Sends one request after the other over one connection, to each route in turn.
async fn drive(address: SocketAddr, first: usize, stopped: watch::Receiver<bool>) -> Tally {
    // Half of the connections are of HTTP/1.1, and half of HTTP/2.
    let client = Client::builder(TokioExecutor::new()).http2_only(first % 2 == 1).build_http();
    let mut tally = Tally::default();
    for route in iter::repeat(Route::ALL).flatten().skip(first % Route::COUNT) {
        if *stopped.borrow() {
            break;
        }
        let answer = timeout(MAX_WAIT, request(&client, address, route)).await;
        match answer.unwrap_or_else(|_| Err(format!("no answer within {MAX_WAIT:?}").into())) {
            Ok(status) => tally.count(route, Ending::Status(status)),
            Err(error) => {
                // A broken request is already a difference, so this connection ends.
                tally.count(route, Ending::Broken(with_causes(&*error)));
                break;
            }
        }
    }
    tally
}

async fn request(
    client: &Client<HttpConnector, Body>,
    address: SocketAddr,
    route: Route,
) -> Answer {
    let uri = format!("http://{address}{route}").parse::<Uri>()?;
    let (head, body) = client.get(uri).await?.into_parts();
    // A connection is kept alive only if the answer was read to its end.
    to_bytes(Body::new(body), usize::MAX).await?;
    Ok(head.status.as_u16())
}

fn with_causes(error: &(dyn Error + 'static)) -> String {
    let chain = iter::successors(Some(error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
