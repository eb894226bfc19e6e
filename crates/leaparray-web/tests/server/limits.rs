//! Bounds on viewers, on their time, and on the time of a shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use leaparray::{ManualClock, Registry};
use leaparray_web::format::{ByeReason, Message};
use leaparray_web::{Access, Closer, Page};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::client::{SOON, Stream, get, send, text};
use crate::{Server, registry};

#[tokio::test]
async fn viewers_are_bounded_and_a_place_is_free_after_a_viewer_has_left() {
    let server = Server::with(|page| page.max_viewers(2)).await;
    let (mut one, _two) = (server.lines("").await, server.lines("").await);
    one.hello().await;
    let refused = get(server.address, "/stream", &[]).await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (503, &"5".parse().unwrap())
    );
    drop(one);
    let is_free = async {
        while get(server.address, "/stream", &[]).await.status() != 200 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, is_free).await.expect("the place is free");
}

/// Opens a stream with a small buffer, and takes nothing of it.
async fn stalled(address: SocketAddr, path: &str) -> hyper::Response<hyper::body::Incoming> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let connection = socket.connect(address).await.unwrap();
    send(connection, "GET", address, path, &[]).await
}

fn load(registry: &Registry<ManualClock>, resources: usize) {
    for index in 0..resources {
        registry.resource(&format!("a resource with a long name {index}")).unwrap().block();
    }
}

/// Waits until the only viewer, which takes nothing, has lost its place. By then, the buffers of
/// its socket are full.
async fn is_slow(registry: &Registry<ManualClock>, clock: &ManualClock, closer: &Closer) {
    let is_dropped = async {
        while closer.viewers() > 0 {
            load(registry, 2_000);
            clock.advance(Duration::from_secs(1));
            sleep(Duration::from_millis(60)).await;
        }
    };
    // A busy machine takes long to fill the buffers.
    timeout(8 * SOON, is_dropped).await.expect("it is slow after some seconds");
}

#[tokio::test]
async fn place_of_a_viewer_whose_socket_takes_nothing_is_free() {
    let server = Server::with(|page| page.max_viewers(1)).await;
    let _stalled = stalled(server.address, "/stream").await;
    assert_eq!(server.closer.viewers(), 1);
    is_slow(&server.registry, &server.clock, &server.closer).await;
    server.lines("").await.hello().await;
}

#[tokio::test]
async fn stream_ends_after_its_life() {
    let server = Server::with(|page| page.stream_life(Duration::from_millis(300))).await;
    let mut stream = server.lines("").await;
    let mut last = None;
    while let Some(message) = stream.message().await {
        last = Some(message);
    }
    assert!(matches!(last, Some(Message::Bye(bye)) if bye.reason == ByeReason::Expired));
    assert_eq!(server.closer.viewers(), 0);
}

/// A service with the page nested in its router, and a graceful shutdown with a time limit, if
/// there is one.
struct Service {
    registry: Arc<Registry<ManualClock>>,
    clock: ManualClock,
    closer: Closer,
    address: SocketAddr,
    signal: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Service {
    async fn start(limit: Option<Duration>) -> Self {
        let (registry, clock) = registry();
        let page = Page::new(Arc::clone(&registry), Access::anyone())
            .stream_life(Duration::from_secs(300));
        let closer = page.closer();
        let app: Router = Router::new().nest_service("/leaparray", page.into_service());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (signal, signalled) = oneshot::channel::<()>();
        let closing = closer.clone();
        let shutdown = async move {
            let _ = signalled.await;
            closing.close();
        };
        let running = axum::serve(listener, app).with_graceful_shutdown(shutdown);
        let limited = closer.clone();
        let task = async move {
            let Some(limit) = limit else { return running.await };
            tokio::select! {
                result = running.into_future() => result,
                () = limited.closed_for(limit) => Ok(()),
            }
        };
        let served = tokio::spawn(task);
        Self { registry, clock, closer, address, signal, served }
    }

    /// Sends the signal, and returns the time until the server has ended.
    async fn stop(self) -> Duration {
        self.signal.send(()).unwrap();
        let start = Instant::now();
        timeout(SOON, self.served).await.expect("the server ends").unwrap().unwrap();
        start.elapsed()
    }
}

#[tokio::test]
async fn graceful_shutdown_is_not_held_up_by_open_streams() {
    let service = Service::start(None).await;
    let address = service.address;
    let mut streams = Vec::new();
    for accept in ["text/event-stream", "*/*", "application/x-ndjson"] {
        let headers = [("accept", accept)];
        let mut stream = Stream::open(address, "/leaparray/stream", &headers).await;
        stream.hello().await;
        streams.push(stream);
    }
    service.stop().await;
    for stream in &mut streams {
        let mut last = None;
        while let Some(message) = stream.message().await {
            last = Some(message);
        }
        assert!(matches!(last, Some(Message::Bye(bye)) if bye.reason == ByeReason::Closing));
    }
}

#[tokio::test]
async fn listener_of_its_own_ends_although_a_socket_takes_nothing() {
    let server = Server::start().await;
    let _stalled = stalled(server.address, "/stream").await;
    is_slow(&server.registry, &server.clock, &server.closer).await;
    server.closer.close();
    timeout(SOON, server.task).await.expect("the server ends").unwrap().unwrap();
}

#[tokio::test]
async fn shutdown_with_a_time_limit_ends_although_a_socket_takes_nothing() {
    let service = Service::start(Some(Duration::from_millis(300))).await;
    let _stalled = stalled(service.address, "/leaparray/stream").await;
    is_slow(&service.registry, &service.clock, &service.closer).await;
    let time = service.stop().await;
    // How much later depends on the load of the machine.
    assert!(time >= Duration::from_millis(300), "it ended before the limit, after {time:?}");
}

#[tokio::test]
async fn closed_page_refuses_streams() {
    let (registry, _clock) = registry();
    let page = Page::new(registry, Access::anyone());
    page.closer().close();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app: Router = Router::new().fallback_service(page.into_service());
    tokio::spawn(axum::serve(listener, app).into_future());
    let refused = get(address, "/stream", &[]).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(text(refused).await, "The server ends.\n");
}

#[tokio::test]
async fn life_of_a_stream_may_be_endless() {
    let server = Server::with(|page| page.stream_life(Duration::MAX)).await;
    server.lines("").await.hello().await;
}
