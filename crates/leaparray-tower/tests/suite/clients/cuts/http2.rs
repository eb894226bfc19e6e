//! Clients that reset streams or close a connection with streams.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::select;
use tokio::task::{JoinHandle, JoinSet};

use super::{Arrivals, BODY, CHUNK, CHUNKS, Counts, Cut, Plan};

pub(super) const CONNECTIONS: usize = 20;
/// The requests that a client sends at a time, over one connection.
const STREAMS: usize = 10;

/// How a request ended for its client.
enum End {
    Whole,
    /// Once this is dropped, the client resets the stream.
    Cut(Box<dyn Send>),
    /// The server has not taken the request.
    Unanswered,
}

struct Connection {
    requests: SendRequest<Body>,
    running: JoinHandle<()>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Option<Self> {
        let stream = TokioIo::new(TcpStream::connect(address).await.ok()?);
        let (requests, connection) = handshake(TokioExecutor::new(), stream).await.ok()?;
        let running = tokio::spawn(async {
            // Its requests have the error as well.
            let _ = connection.await;
        });
        Some(Self { requests, running })
    }

    /// Waits until the requests have ended. Returns the connection, unless it has ended before.
    ///
    /// A request that is sent beside the end of the connection can stay in the channel to it, for
    /// which the receiver does not wait. It fails once all senders are dropped: the one here, and
    /// its own.
    async fn ends_of(mut self, requests: JoinSet<End>) -> (Vec<End>, Option<Self>) {
        let mut ends = pin!(requests.join_all());
        select! {
            ends = &mut ends => return (ends, Some(self)),
            _ = &mut self.running => {}
        }
        drop(self.requests);
        (ends.await, None)
    }

    /// Closes the socket, without a reset of the streams.
    async fn close(self) {
        self.running.abort();
        let _ = self.running.await;
    }
}

/// Sends requests, some at a time, until all are sent or the server has stopped. Some batches end
/// with the connection.
pub(super) async fn drive(
    address: SocketAddr,
    arrivals: Arc<Arrivals>,
    plans: Vec<Plan>,
    mut random: fastrand::Rng,
) -> Counts {
    let (mut counts, mut kept) = (Counts::default(), None);
    for batch in plans.chunks(STREAMS) {
        let is_last = random.u8(..4) == 0;
        let connection = match kept.take() {
            Some(connection) => Some(connection),
            None => Connection::open(address).await,
        };
        let Some(connection) = connection else {
            counts.unanswered += batch.len();
            break;
        };
        let mut requests = JoinSet::new();
        for &plan in batch {
            let bytes = random.usize(0..=CHUNK.len() * CHUNKS);
            let sender = connection.requests.clone();
            let arrivals = Arc::clone(&arrivals);
            requests.spawn(async move {
                let end = send(sender, plan, bytes, &arrivals).await;
                match end {
                    // Resets the stream, beside the other requests.
                    End::Cut(stream) if !is_last => {
                        drop(stream);
                        End::Cut(Box::new(()))
                    }
                    end => end,
                }
            });
        }
        let (ends, connection) = connection.ends_of(requests).await;
        match connection {
            Some(connection) if is_last => connection.close().await,
            connection => kept = connection,
        }
        for end in ends {
            match end {
                End::Whole => counts.whole += 1,
                End::Cut(_) => counts.cut += 1,
                End::Unanswered => counts.unanswered += 1,
            }
        }
        if counts.unanswered > 0 {
            break;
        }
    }
    counts
}

/// Sends a request, and reads its response: the whole one, or at least `bytes` bytes of it.
async fn send(mut sender: SendRequest<Body>, plan: Plan, bytes: usize, arrivals: &Arrivals) -> End {
    let mut request = Request::get("http://x/body");
    for (name, value) in plan.headers() {
        request = request.header(name, value);
    }
    let request = request.body(Body::empty()).unwrap();
    let mut response = Box::pin(sender.send_request(request));
    drop(sender);
    if plan.cut == Some(Cut::BeforeHead) {
        return select! {
            () = arrivals.wait(plan.number) => End::Cut(Box::new(response)),
            response = &mut response => {
                assert!(response.is_err(), "the handler has answered");
                End::Unanswered
            }
        };
    }
    let Ok(response) = response.await else { return End::Unanswered };
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    if plan.cut.is_none() {
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), BODY);
        return End::Whole;
    }
    let mut read = 0;
    while read < bytes {
        read += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
    End::Cut(Box::new(body))
}
