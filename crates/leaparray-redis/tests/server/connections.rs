//! The connections of an engine that many limiters share.

use std::time::Duration;

use leaparray::flow::LimiterExt;
use leaparray_redis::lease::LeaseConfig;
use leaparray_redis::{LeasedLimiter, RedisEngine};
use tokio::time::sleep;

use crate::server::Server;

/// Returns the number of connections that the server has ever had.
fn connections(probe: &mut redis::Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("stats").query(probe).unwrap();
    let line = info.lines().find_map(|it| it.strip_prefix("total_connections_received:"));
    line.and_then(|it| it.trim().parse().ok()).expect("a number")
}

/// Lets all limiters ask for a second.
async fn work(limiters: &[LeasedLimiter]) {
    for _ in 0..10 {
        for limiter in limiters {
            _ = limiter.try_acquire();
        }
        sleep(Duration::from_millis(100)).await;
    }
}

#[test]
#[ignore = "needs redis-server"]
fn limiters_of_one_engine_share_one_connection() {
    let Some(server) = Server::start("the connections of an engine") else { return };
    let mut probe = server.connect();
    let before = connections(&mut probe);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = RedisEngine::open(&server.address()).unwrap();
        let config = LeaseConfig::new(100, Duration::from_secs(1)).unwrap();
        let start = |it| {
            LeasedLimiter::builder(&format!("orders-{it}"), config).start(engine.clone()).unwrap()
        };
        let limiters: Vec<_> = (0..100).map(start).collect();
        work(&limiters).await;
        assert_eq!(connections(&mut probe) - before, 1, "at the start");
        redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).exec(&mut probe).unwrap();
        work(&limiters).await;
        let after_cut = connections(&mut probe) - before;
        assert!(after_cut <= 3, "{after_cut} after a cut");
        // Longer than an answer is waited for: each limiter gives up its ask.
        redis::cmd("CLIENT").arg(&["PAUSE", "2500", "ALL"]).exec(&mut probe).unwrap();
        for _ in 0..4 {
            work(&limiters).await;
        }
        let after_stop = connections(&mut probe) - before;
        assert!(after_stop <= after_cut + 3, "{after_stop} after a stop");
    });
}
