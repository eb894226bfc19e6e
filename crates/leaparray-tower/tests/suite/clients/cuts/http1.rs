//! Clients that read from a socket, so that they can leave at any byte.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::select;

use super::{Arrivals, Counts, Cut, LAST, Plan, routes};
use crate::clients::server::Server;

pub(super) const CONNECTIONS: usize = 100;

/// The bytes of a response before its last chunk, with the head.
#[derive(Clone, Copy)]
pub(super) struct Lengths {
    announced: usize,
    chunked: usize,
}

impl Lengths {
    /// Measures whole responses of a server that is started for it.
    pub(super) async fn measure() -> Self {
        let server = Server::start(routes(Arc::new(Arrivals::new()))).await;
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        let [mut announced, mut chunked] = [0; 2];
        for (is_announced, length) in [(true, &mut announced), (false, &mut chunked)] {
            let plan = Plan { number: 0, is_announced, cut: None };
            connection.write_all(request(plan).as_bytes()).await.unwrap();
            let whole = read_whole(&mut connection, is_announced).await.unwrap();
            *length = whole - end(is_announced).len();
        }
        drop(connection);
        server.stop().await;
        Self { announced, chunked }
    }
}

/// Sends requests over one connection after the other, until all are sent or the server has
/// stopped.
pub(super) async fn drive(
    address: SocketAddr,
    arrivals: Arc<Arrivals>,
    plans: Vec<Plan>,
    mut random: fastrand::Rng,
    lengths: Lengths,
) -> Counts {
    let (mut counts, mut kept) = (Counts::default(), None);
    for plan in plans {
        let connection = match kept.take() {
            Some(connection) => Ok(connection),
            None => TcpStream::connect(address).await,
        };
        let mut is_answered = false;
        if let Ok(mut connection) = connection {
            if connection.write_all(request(plan).as_bytes()).await.is_ok() {
                let length = if plan.is_announced { lengths.announced } else { lengths.chunked };
                // Drawn for each request, so that the choices do not depend on the server.
                let bytes = random.usize(0..=length);
                is_answered = match plan.cut {
                    None => read_whole(&mut connection, plan.is_announced).await.is_some(),
                    Some(Cut::BeforeEnd) if bytes > 0 => read(&mut connection, bytes).await,
                    Some(_) => has_arrived(&connection, &arrivals, plan.number).await,
                };
            }
            kept = plan.cut.is_none().then_some(connection);
        }
        match plan.cut {
            _ if !is_answered => {
                counts.unanswered += 1;
                break;
            }
            None => counts.whole += 1,
            Some(_) => counts.cut += 1,
        }
    }
    counts
}

fn request(plan: Plan) -> String {
    let mut request = "GET /body HTTP/1.1\r\nhost: x\r\n".to_owned();
    for (name, value) in plan.headers() {
        request.extend([name, ": ", &value, "\r\n"]);
    }
    request + "\r\n"
}

/// Returns the last bytes of a whole response.
fn end(is_announced: bool) -> &'static [u8] {
    if is_announced { LAST } else { b"3\r\nend\r\n0\r\n\r\n" }
}

/// Waits until the server has a request, without a read. Returns `false` if it closes the
/// connection instead.
async fn has_arrived(connection: &TcpStream, arrivals: &Arrivals, number: usize) -> bool {
    let mut byte = [0];
    select! {
        () = arrivals.wait(number) => true,
        peeked = connection.peek(&mut byte) => peeked.is_ok_and(|bytes| bytes > 0),
    }
}

/// Reads `bytes` bytes. Returns `false` if the server closes the connection before the first one.
async fn read(connection: &mut TcpStream, bytes: usize) -> bool {
    let mut response = vec![0; bytes];
    let Ok(first @ 1..) = connection.read(&mut response).await else { return false };
    connection.read_exact(&mut response[first..]).await.expect("the response is not whole");
    true
}

/// Reads a whole response, and returns its length; `None` if the server closes the connection
/// before the first byte.
async fn read_whole(connection: &mut TcpStream, is_announced: bool) -> Option<usize> {
    let mut response = Vec::new();
    while !response.ends_with(end(is_announced)) {
        match connection.read_buf(&mut response).await {
            Ok(1..) => {}
            _ if response.is_empty() => return None,
            end => panic!("the response is not whole: {end:?}"),
        }
    }
    assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"));
    Some(response.len())
}
