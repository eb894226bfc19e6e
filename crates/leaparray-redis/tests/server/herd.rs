//! A thousand limiters with one waiting request each, beside another client of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leaparray_redis::lease::LeaseConfig;
use leaparray_redis::{LeasedLimiter, RedisEngine};
use tokio::runtime::Runtime;

use crate::server::Server;

const LIMITERS: usize = 1_000;
/// The connections of the limiters.
const ENGINES: usize = 16;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(1);

/// Returns the quantile 0.99 of the round trips of `PING` in a round.
fn p99_of_ping(connection: &mut redis::Connection) -> Duration {
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < ROUND {
        let sent = Instant::now();
        let _: String = redis::cmd("PING").query(connection).unwrap();
        times.push(sent.elapsed());
        std::thread::sleep(Duration::from_micros(200));
    }
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

/// Returns the best of some rounds: in the others, the machine had other work.
fn best_p99(connection: &mut redis::Connection) -> Duration {
    (0..ROUNDS).map(|_| p99_of_ping(connection)).min().unwrap()
}

/// Returns how often the script was called.
fn asks(connection: &mut redis::Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(connection).unwrap();
    let calls = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
    calls.split(',').next().unwrap().parse().unwrap()
}

/// Runs limiters of `limit` permits in any second. Returns the asks and the uses in a second, and
/// prints them, with the quantile of another client, and the one without the limiters: these depend
/// on what else the machine has to do.
fn herd(server: &Server, limit: u64) -> (u64, u64) {
    let config = LeaseConfig::new(limit, Duration::from_secs(1)).unwrap();
    let name = format!("orders{limit}");
    let mut connection = server.connect();
    let idle = best_p99(&mut connection);
    let runtime = Runtime::new().unwrap();
    let _guard = runtime.enter();
    let engines: Vec<_> =
        (0..ENGINES).map(|_| RedisEngine::open(&server.address()).unwrap()).collect();
    let used = Arc::new(AtomicU64::new(0));
    for number in 0..LIMITERS {
        let engine = engines[number % ENGINES].clone();
        let limiter = LeasedLimiter::builder(&name, config)
            .with_answer_timeout(Duration::from_secs(1))
            .start(engine)
            .unwrap();
        let used = Arc::clone(&used);
        runtime.spawn(async move {
            loop {
                if limiter.acquire_within(Duration::from_secs(2)).await.is_ok() {
                    used.fetch_add(1, Ordering::Relaxed);
                } else {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
    }
    // The quarantine, and until the shares are known.
    std::thread::sleep(Duration::from_secs(5));
    let before = (asks(&mut connection), used.load(Ordering::Relaxed), Instant::now());
    let busy = best_p99(&mut connection);
    let millis = u64::try_from(before.2.elapsed().as_millis()).unwrap();
    let rate = |count: u64| count * 1_000 / millis;
    let asks = rate(asks(&mut connection) - before.0);
    let used = rate(used.load(Ordering::Relaxed) - before.1);
    println!("limit {limit}: {asks} asks and {used} uses a second, p99 {idle:?} idle, {busy:?}");
    (asks, used)
}

#[test]
#[ignore = "needs redis-server"]
fn limiters_that_wait_take_turns() {
    let Some(server) = Server::start("a thousand limiters that wait") else { return };
    for limit in [1_000, 10_000] {
        let (asks, used) = herd(&server, limit);
        assert!(asks <= 2_000, "{asks} asks in a second");
        assert!(used <= limit * 21 / 20, "{used} uses in a second");
    }
}
