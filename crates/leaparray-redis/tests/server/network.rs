//! A server that is there and does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray_redis::lease::LeaseConfig;
use leaparray_redis::{LeaseState, LeasedLimiter, RedisEngine};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use crate::server::Server;

/// The quarantine takes 670 ms, and an answer is waited for for 150 ms.
fn config() -> LeaseConfig {
    let config = LeaseConfig::new(100, Duration::from_millis(500)).unwrap();
    config.with_validity(15).unwrap()
}

/// Waits until the limiter gets a permit.
async fn wait_for_permit(limiter: &LeasedLimiter) {
    let granted = async {
        while limiter.acquire().await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = timeout(Duration::from_secs(30), granted).await;
    assert!(waited.is_ok(), "{}", limiter.state());
}

/// The connections to a server: some of them swallow all that is sent.
#[derive(Default)]
struct Connections {
    opened: AtomicU64,
    /// The connections with lower numbers are dead.
    first_alive: AtomicU64,
}

/// Passes on what arrives, unless the connection is dead.
async fn pass(of: Arc<Connections>, number: u64, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut bytes = [0; 4_096];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        if number >= of.first_alive.load(Ordering::SeqCst) {
            to.write_all(&bytes[..read]).await.unwrap();
        }
    }
    // Neither end learns of it.
    std::future::pending::<()>().await;
}

#[test]
#[ignore = "needs redis-server"]
fn dead_connection_is_replaced() {
    let Some(server) = Server::start("a connection that is dead") else { return };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("redis://{}/", listener.local_addr().unwrap());
        let (connections, port) = (Arc::new(Connections::default()), server.port());
        let of = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let number = of.opened.fetch_add(1, Ordering::SeqCst);
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let ((a, b), (c, d)) = (client.into_split(), server.into_split());
                tokio::spawn(pass(Arc::clone(&of), number, a, d));
                tokio::spawn(pass(Arc::clone(&of), number, c, b));
            }
        });
        let engine = RedisEngine::open(&address).unwrap();
        let limiter = LeasedLimiter::builder("orders", config()).start(engine).unwrap();
        wait_for_permit(&limiter).await;
        let opened = connections.opened.load(Ordering::SeqCst);
        connections.first_alive.store(opened, Ordering::SeqCst);
        while !matches!(limiter.state(), LeaseState::Away { .. }) {
            let _ = limiter.acquire().await;
            sleep(Duration::from_millis(20)).await;
        }
        wait_for_permit(&limiter).await;
        assert!(connections.opened.load(Ordering::SeqCst) > opened);
    });
}

/// The primary is stopped, and not killed: its connections stay open.
#[cfg(feature = "sentinel")]
#[test]
#[ignore = "needs redis-server"]
fn sentinel_names_another_primary_while_the_last_one_hangs() {
    let Some((primary, replica, sentinel)) = Server::start_with_sentinel("a primary that hangs")
    else {
        return;
    };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let engine = RedisEngine::open_sentinel(vec![sentinel.address()], "limits").unwrap();
        let limiter = LeasedLimiter::builder("orders", config()).start(engine).unwrap();
        wait_for_permit(&limiter).await;
        primary.stop();
        while !matches!(limiter.state(), LeaseState::Away { .. }) {
            let _ = limiter.acquire().await;
            sleep(Duration::from_millis(20)).await;
        }
        wait_for_permit(&limiter).await;
        drop(replica);
    });
}
