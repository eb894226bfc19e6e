//! The load: requests to all processes, more than the limit admits, most of them to the first
//! process.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::clock::time_of_day;
use crate::notes::{Endings, Notes, Use};
use crate::service::{ADMITTED, DECIDED, ORDERS, PROCESS};

/// The demand, in parts of the limit.
pub(crate) const DEMAND: f64 = 2.5;

/// The timeout of a request. Only a broken service reaches it.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The requests of a second that one connection sends.
const PER_CONNECTION: f64 = 100.0;

/// A running load.
pub(crate) struct Load {
    stop: watch::Sender<bool>,
    connections: JoinSet<()>,
}

impl Load {
    /// Sends `rates[i]` requests a second to `addresses[i]`, at random times.
    pub(crate) fn start(addresses: &[SocketAddr], rates: &[f64], notes: &Arc<Notes>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        for (&address, &rate) in addresses.iter().zip(rates) {
            let mut left = rate;
            while left > 0.0 {
                let gap = Duration::from_secs_f64(1.0 / left.min(PER_CONNECTION));
                connections.spawn(drive(address, gap, stopped.clone(), Arc::clone(notes)));
                left -= PER_CONNECTION;
            }
        }
        Self { stop, connections }
    }

    /// Sends no further requests, and waits for the answers to those in flight.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        self.connections.join_all().await;
    }
}

/// Returns the requests of a second to each of the processes: the first one has the most, the
/// second one half of that, the third one a third.
pub(crate) fn rates(limit: u64, processes: usize) -> Vec<f64> {
    let shares: Vec<f64> = (1..).map(|it| 1.0 / f64::from(it)).take(processes).collect();
    let sum: f64 = shares.iter().sum();
    #[expect(clippy::cast_precision_loss, reason = "at most 5,000")]
    let demand = limit as f64 * DEMAND;
    shares.iter().map(|it| demand * it / sum).collect()
}

/// Sends one request after the other over one connection, with random gaps that are `gap` long on
/// average.
async fn drive(
    address: SocketAddr,
    gap: Duration,
    stopped: watch::Receiver<bool>,
    notes: Arc<Notes>,
) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let uri: Uri = format!("http://{address}{ORDERS}").parse().expect("an address and a path");
    let mut next = Instant::now();
    loop {
        next += gap.mul_f64(-(1.0 - fastrand::f64()).ln());
        sleep_until(next).await;
        if *stopped.borrow() {
            return;
        }
        request(&client, &uri, &notes).await;
        // Requests that are late by more than this are not sent.
        next = next.max(Instant::now() - gap * 4);
    }
}

async fn request(client: &Client<HttpConnector, Body>, uri: &Uri, notes: &Notes) {
    let sent = time_of_day();
    let Ok(answer) = timeout(MAX_WAIT, client.get(uri.clone())).await else {
        let mut notes = notes.lock();
        // It may still be admitted.
        notes.lost.push(Use { earliest: sent, latest: u64::MAX });
        *notes.unexpected.entry(format!("no answer within {MAX_WAIT:?}")).or_default() += 1;
        return;
    };
    let response = match answer {
        Ok(response) => response,
        Err(error) => return note_error(&error, sent, notes),
    };
    let (head, body) = response.into_parts();
    note_answer(head.status, &head.headers, &mut notes.lock());
    // A connection is kept alive only if the answer was read to its end.
    let _ = timeout(MAX_WAIT, to_bytes(Body::new(body), usize::MAX)).await;
}

/// Notes an answer.
fn note_answer(status: StatusCode, headers: &HeaderMap, notes: &mut Endings) {
    let of = (header(headers, &PROCESS), header::<Use>(headers, &DECIDED));
    match (status, header(headers, &ADMITTED), of) {
        (StatusCode::OK, Some(admitted), (Some(process), Some(decided))) => {
            notes.uses.push(admitted);
            notes.answers.entry(process).or_default().note(decided, true);
        }
        (
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE,
            _,
            (Some(process), Some(decided)),
        ) => {
            notes.refused += 1;
            notes.answers.entry(process).or_default().note(decided, false);
        }
        _ => *notes.unexpected.entry(format!("status {status}")).or_default() += 1,
    }
}

fn header<T: FromStr>(headers: &HeaderMap, name: &HeaderName) -> Option<T> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// Notes a request without an answer. A process that is killed cuts its connections: what it has
/// admitted was admitted before.
fn note_error(error: &Error, sent: u64, notes: &Notes) {
    let mut notes = notes.lock();
    if error.is_connect() {
        notes.unsent += 1;
    } else {
        notes.lost.push(Use { earliest: sent, latest: time_of_day() });
    }
}
