//! A thousand limiters with one waiting request each, beside another client of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leaparray_redis::lease::LeaseConfig;
use leaparray_redis::{LeasedLimiter, RedisEngine};
use tokio::runtime::Builder;

use crate::server::Server;

const LIMITERS: usize = 1_000;
/// The connections of the limiters.
const ENGINES: usize = 16;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(1);

/// Returns the quantile 0.99 of the round trips of `PING` to each server in a round. The servers
/// take turns, so what else the machine has to do concerns all of them.
fn p99_of_ping(connections: &mut [redis::Connection; 2]) -> [Duration; 2] {
    let mut times = [Vec::new(), Vec::new()];
    let start = Instant::now();
    while start.elapsed() < ROUND {
        for (connection, times) in connections.iter_mut().zip(&mut times) {
            let sent = Instant::now();
            let _: String = redis::cmd("PING").query(connection).unwrap();
            times.push(sent.elapsed());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    times.map(|mut it| {
        it.sort_unstable();
        it[it.len() * 99 / 100]
    })
}

/// Returns the number that follows a name.
fn number(info: &str, name: &str) -> f64 {
    let (_, rest) = info.split_once(name).unwrap();
    rest.split([',', '\r']).next().unwrap().parse().unwrap()
}

/// What a server has done since its start.
#[derive(Clone, Copy)]
struct Work {
    /// The calls of the script.
    asks: f64,
    /// The microseconds in the script.
    micros: f64,
    /// The processor time of the server, in seconds.
    cpu: f64,
}

fn work(connection: &mut redis::Connection) -> Work {
    let info: String = redis::cmd("INFO").arg("all").query(connection).unwrap();
    let (_, script) = info.split_once("cmdstat_evalsha:").unwrap();
    Work {
        asks: number(script, "calls="),
        micros: number(script, "usec="),
        cpu: number(&info, "used_cpu_user:") + number(&info, "used_cpu_sys:"),
    }
}

/// What a herd costs.
struct Cost {
    /// Asks and uses in a second.
    asks: f64,
    uses: f64,
    /// The share of a processor that the server needs.
    cpu: f64,
}

/// Runs limiters of `limit` permits in any second on a server, beside one that has nothing to do.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn herd([server, idle]: [&Server; 2], limit: u32) -> Cost {
    let config = LeaseConfig::new(limit.into(), Duration::from_secs(1)).unwrap();
    let name = format!("orders{limit}");
    let mut connections = [server.connect(), idle.connect()];
    // The other processor is for the servers.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
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
    let start = (work(&mut connections[0]), used.load(Ordering::Relaxed), Instant::now());
    let mut rounds: Vec<_> = (0..ROUNDS).map(|_| p99_of_ping(&mut connections)).collect();
    let secs = start.2.elapsed().as_secs_f64();
    let end = work(&mut connections[0]);
    rounds.sort_by_key(|it| it[0]);
    let [beside, idle] = rounds[ROUNDS / 2];
    let cost = Cost {
        asks: (end.asks - start.0.asks) / secs,
        uses: (used.load(Ordering::Relaxed) - start.1) as f64 / secs,
        cpu: (end.cpu - start.0.cpu) / secs,
    };
    println!(
        "limit {limit}: {:.0} asks and {:.0} uses a second; {:.0} µs in the script for an ask, \
         {:.3} of a processor in all; p99 of another client {beside:?}, of an idle server {idle:?}",
        cost.asks,
        cost.uses,
        (end.micros - start.0.micros) / (end.asks - start.0.asks),
        cost.cpu,
    );
    cost
}

#[test]
#[ignore = "needs redis-server"]
fn limiters_that_wait_take_turns() {
    let Some(server) = Server::start("a thousand limiters that wait") else { return };
    let Some(idle) = Server::start("a thousand limiters that wait") else { return };
    for limit in [1_000, 10_000] {
        let cost = herd([&server, &idle], limit);
        assert!(cost.asks <= 2_000.0, "{} asks in a second", cost.asks);
        assert!(cost.uses <= f64::from(limit) * 1.05, "{} uses in a second", cost.uses);
    }
}
