//! The listener of a command centre.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Version;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use leaparray_rules::RuleClock;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::center::{CommandCenter, answer};

/// The port on which Sentinel listens.
pub const PORT: u16 = 8719;

/// How many ports are tried.
const PORTS: u16 = 100;

/// The most connections at a time. Further ones wait in the queue of the operating system.
const MAX_CONNECTIONS: usize = 64;

/// How long a client may send the head of its request.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// How long a connection may be open. A dashboard waits for ten seconds.
const LIFE: Duration = Duration::from_secs(15);

/// How long the listener waits after an error, such as one of too many open files.
const PAUSE: Duration = Duration::from_secs(1);

/// Listens at an address on the [port](PORT) of Sentinel, or, if it is taken, on one of the next
/// hundred.
///
/// # Errors
///
/// Returns the error of the last port, if none can be listened on.
pub async fn bind(address: IpAddr) -> io::Result<TcpListener> {
    let mut last = PORT;
    loop {
        match TcpListener::bind((address, last)).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && last < PORT + PORTS => {
                last += 1;
            }
            result => return result,
        }
    }
}

impl<C: RuleClock> CommandCenter<C> {
    /// Answers on a listener of its own, as Sentinel does: by HTTP/1.0, one request each
    /// connection. A connection from an address that is not [allowed](Self::access) is closed at
    /// once.
    ///
    /// At most 64 connections are open at a time, each for at most 15 seconds. The head of a
    /// request has to be there in 5 seconds, and so does a form, of at most 4 MiB.
    ///
    /// Ends with its task: if the future is dropped, all connections are closed.
    pub async fn serve(self, listener: TcpListener) -> Infallible {
        let center = Arc::new(self);
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let slot = Arc::clone(&slots).acquire_owned().await;
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, from)) if center.access.allows(from.ip()) => {
                    let connection = connection(Arc::clone(&center), stream, from);
                    connections.spawn(async move {
                        let _slot = slot;
                        // A client that is gone, or too slow, has no answer.
                        let _ = timeout(LIFE, connection).await;
                    });
                }
                Ok(_) => {}
                Err(error) if is_of_connection(&error) => {}
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

/// Returns whether an error is of one connection, and not of the listener.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection<C: RuleClock>(
    center: Arc<CommandCenter<C>>,
    stream: TcpStream,
    from: SocketAddr,
) -> hyper::Result<()> {
    let service = service_fn(move |request: hyper::Request<_>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(from));
        let center = Arc::clone(&center);
        async move {
            let mut response = answer(center, request).await;
            *response.version_mut() = Version::HTTP_10;
            Ok::<_, Infallible>(response)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        // A client may end its direction after its request, and still wait for the answer.
        .half_close(true)
        .header_read_timeout(HEAD_TIME)
        .title_case_headers(true)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
