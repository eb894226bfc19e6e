//! A server that is there and does not answer.

use std::time::Duration;

use leaparray_redis::lease::LeaseConfig;
use leaparray_redis::{LeaseState, LeasedLimiter, RedisEngine};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use crate::proxy::{Link, Proxy};
use crate::server::Server;

/// The quarantine takes 670 ms, and an answer is waited for for 150 ms.
pub(crate) fn config() -> LeaseConfig {
    let config = LeaseConfig::new(100, Duration::from_millis(500)).unwrap();
    config.with_validity(15).unwrap()
}

/// Waits until the limiter gets a permit.
pub(crate) async fn wait_for_permit(limiter: &LeasedLimiter) {
    let granted = async {
        while limiter.acquire().await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = timeout(Duration::from_secs(30), granted).await;
    assert!(waited.is_ok(), "{}", limiter.state());
}

#[test]
#[ignore = "needs redis-server"]
fn dead_connection_is_replaced() {
    let Some(server) = Server::start("a connection that is dead") else { return };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let proxy = Proxy::start(server.port(), Link::default()).await;
        let engine = RedisEngine::open(proxy.address()).unwrap();
        let limiter = LeasedLimiter::builder("orders", config()).start(engine).unwrap();
        wait_for_permit(&limiter).await;
        let opened = proxy.opened();
        proxy.deaden();
        while !matches!(limiter.state(), LeaseState::Away { .. }) {
            let _ = limiter.acquire().await;
            sleep(Duration::from_millis(20)).await;
        }
        wait_for_permit(&limiter).await;
        assert!(proxy.opened() > opened);
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
