//! Requests over HTTP/1.1 and the loopback interface: the server has a thread, and the client
//! another one.

use std::cell::RefCell;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use super::stacks::{PATH, Stack};
use crate::harness::{Plan, Suite};
use crate::machine;
use crate::quiet::Quiet;
use crate::results::Results;
use crate::scenarios::crowd::Crowd;

/// The connections of the client. Each has one request at a time, and remains open.
const CONNECTIONS: usize = 8;

/// The length of a sample, as a multiple of that of the other cases.
const SAMPLES: u32 = 10;

/// The server and the client.
const THREADS: usize = 2;

type Sender = SendRequest<Empty<Bytes>>;

/// Returns the name of the case that sends requests to a service over the network.
fn case(stack: &Stack) -> String {
    format!("a request over the loopback interface: {}", stack.name)
}

/// Measures the requests of services.
pub(super) fn measure(
    plan: Plan,
    quiet: &mut Quiet,
    stacks: &[Stack],
    between: impl Fn(usize),
) -> Results {
    let mut suite = Suite::new(machine::cores());
    for stack in stacks {
        let client = Client::new(serve(stack.router()).expect("a server"));
        let run = move |iters, _| client.requests(iters as usize);
        suite.add_run(&case(stack), Crowd::of(THREADS), THREADS, run);
    }
    let sample = plan.sample * SAMPLES;
    suite.measure(Plan { sample, ..plan }, quiet, between)
}

/// Serves a router on a thread of its own, until the process ends. Returns the address.
fn serve(router: Router) -> Result<SocketAddr, Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = runtime();
    thread::spawn(move || {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(listener, router).await
        })
    });
    Ok(address)
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_io().enable_time().build().expect("a runtime")
}

/// A client on the thread that takes the samples.
struct Client {
    runtime: Runtime,
    address: SocketAddr,
    /// Empty before the first sample, and after a sample whose requests have failed.
    connections: RefCell<Vec<Sender>>,
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        Self { runtime: runtime(), address, connections: RefCell::default() }
    }

    /// Sends at least `count` requests. Returns nanoseconds for each, or `None` if one has failed.
    fn requests(&self, count: usize) -> Option<f64> {
        let each = count.div_ceil(CONNECTIONS);
        let mut connections = self.connections.take();
        self.runtime.block_on(async {
            while connections.len() < CONNECTIONS {
                connections.push(connect(self.address).await.ok()?);
            }
            let start = Instant::now();
            let tasks: Vec<_> =
                connections.into_iter().map(|sender| tokio::spawn(send(sender, each))).collect();
            let mut senders = Vec::new();
            for task in tasks {
                senders.push(task.await.ok()?.ok()?);
            }
            let elapsed = start.elapsed().as_secs_f64();
            self.connections.replace(senders);
            Some(elapsed * 1e9 / (each * CONNECTIONS) as f64)
        })
    }
}

async fn connect(address: SocketAddr) -> Result<Sender, Box<dyn Error>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Sends requests, one after another, and reads the body of each response to the end.
async fn send(mut sender: Sender, count: usize) -> Result<Sender, hyper::Error> {
    for _ in 0..count {
        sender.ready().await?;
        let request = Request::get(PATH).header(header::HOST, "localhost").body(Empty::new());
        let response = sender.send_request(request.expect("a valid request")).await?;
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body().collect().await?;
    }
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::middleware::stacks::OURS;

    #[test]
    fn connections_stay_open_between_samples() {
        let client = Client::new(serve(OURS.router()).expect("a server"));
        for _ in 0..2 {
            assert!(client.requests(3 * CONNECTIONS).is_some());
            assert_eq!(client.connections.borrow().len(), CONNECTIONS);
        }
    }
}
