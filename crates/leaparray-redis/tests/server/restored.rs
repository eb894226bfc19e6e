//! What a server keeps of a limit: a snapshot of its memory that comes back, and the mark.

use std::thread::sleep;
use std::time::{Duration, Instant};

use leaparray::flow::LimiterExt;
use leaparray_redis::lease::{Answer, Ask, LeaseConfig, LeaseKeys};
use leaparray_redis::{Engine, LeaseState, LeasedLimiter, RedisEngine};
use tokio::runtime::Runtime;

use crate::server::Server;

/// 100 permits in 500 ms. The quarantine takes 670 ms.
fn config() -> LeaseConfig {
    let config = LeaseConfig::new(100, Duration::from_millis(500)).unwrap();
    config.with_validity(15).unwrap()
}

/// A limit on a server, and its nodes, each of which asks once.
struct Limit {
    runtime: Runtime,
    engine: RedisEngine,
    keys: LeaseKeys,
    nodes: u64,
}

impl Limit {
    fn new(server: &Server) -> Self {
        let runtime = Runtime::new().unwrap();
        let engine = runtime.block_on(async { RedisEngine::open(&server.address()).unwrap() });
        let mut limit =
            Self { runtime, engine, keys: LeaseKeys::new("orders", &config()).unwrap(), nodes: 0 };
        assert_eq!(limit.ask(1).granted, 0, "a new limit begins with a quarantine");
        sleep(config().quarantine());
        limit
    }

    /// Asks as a process that has had no answer.
    fn ask(&mut self, want: u64) -> Answer {
        self.ask_after(want, None)
    }

    /// Asks as a process that has had an answer.
    fn ask_after(&mut self, want: u64, last: Option<(u64, &Answer)>) -> Answer {
        self.nodes += 1;
        let node = last.map_or(self.nodes, |it| it.0);
        let (seq, nonce, weight) = (self.nodes, self.nodes, want);
        let (epoch, seen) = last.map_or((None, 0), |(_, it)| (Some(it.epoch), it.now));
        let (validity, horizon, moves) = (15, 0, Vec::new());
        let ask = Ask { node, seq, nonce, epoch, seen, want, validity, horizon, weight, moves };
        self.runtime.block_on(self.engine.lease(&self.keys, &config(), &ask)).unwrap()
    }
}

/// Returns all keys with their values, as a snapshot of the memory has them. A bucket after a
/// quarantine, the charges expire: a key that does so in between is not there.
fn snapshot(connection: &mut redis::Connection) -> Vec<(String, Vec<u8>)> {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
    let dump = |key: String| {
        let value: Option<_> = redis::cmd("DUMP").arg(&key).query(connection).unwrap();
        Some((key, value?))
    };
    keys.into_iter().filter_map(dump).collect()
}

/// Restores all keys, without an expiry that ends in the test.
fn restore(connection: &mut redis::Connection, before: &[(String, Vec<u8>)]) {
    redis::cmd("FLUSHALL").exec(connection).unwrap();
    for (key, value) in before {
        let mut restore = redis::cmd("RESTORE");
        restore.arg(key).arg(60_000).arg(&value[..]).exec(connection).unwrap();
    }
}

/// The server has its `run_id` and `master_replid` of before. The limit is granted once more, until
/// a process asks whose last ask the server has forgotten.
#[test]
#[ignore = "needs redis-server"]
fn server_restored_from_its_memory_learns_from_a_process_what_it_has_forgotten() {
    let Some(server) = Server::start("a snapshot of a server's memory") else { return };
    let mut limit = Limit::new(&server);
    let before = snapshot(&mut server.connect());
    let forgotten = limit.ask(100);
    let node = limit.nodes;
    assert_eq!(forgotten.granted, 100);
    restore(&mut server.connect(), &before);
    // How they are divided depends on the time between the asks.
    assert_eq!((0..4).map(|_| limit.ask(60).granted).sum::<u64>(), 100);
    let quarantine = u64::try_from(config().quarantine().as_micros()).unwrap();
    let answer = limit.ask_after(1, Some((node, &forgotten)));
    assert_eq!((answer.granted, answer.open_in), (0, quarantine));
    sleep(config().quarantine());
    assert_eq!(limit.ask(100).granted, 100, "after the quarantine");
}

/// A limiter that asks after the restore is told.
#[test]
#[ignore = "needs redis-server"]
fn limiter_notices_that_the_server_was_restored_from_its_memory() {
    let Some(server) = Server::start("a snapshot of a server's memory") else { return };
    let mut limit = Limit::new(&server);
    let before = snapshot(&mut server.connect());
    let engine = limit.engine.clone();
    let guard = limit.runtime.enter();
    let limiter = LeasedLimiter::builder("orders", config()).start(engine).unwrap();
    limit.runtime.block_on(limiter.acquire()).unwrap();
    assert_eq!(limiter.counts().new_epochs, 0);
    restore(&mut server.connect(), &before);
    let end = Instant::now() + Duration::from_secs(10);
    while limiter.counts().new_epochs == 0 {
        assert!(Instant::now() < end, "{:?}", limiter.state());
        _ = limiter.try_acquire();
        sleep(Duration::from_millis(5));
    }
    assert!(matches!(limiter.state(), LeaseState::Quarantine { .. }), "{}", limiter.state());
    drop(guard);
    assert_eq!(limit.ask(100).granted, 0);
}

/// A limit without requests leaves its mark alone, without an expiry. It is safe to delete: the
/// next ask finds a new limit.
#[test]
#[ignore = "needs redis-server"]
fn limit_without_requests_leaves_a_small_mark_that_may_be_deleted() {
    let Some(server) = Server::start("the mark of a limit") else { return };
    let mut limit = Limit::new(&server);
    assert_eq!(limit.ask(100).granted, 100);
    let mut connection = server.connect();
    sleep(config().retention() + Duration::from_millis(100));
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    assert_eq!(keys, [limit.keys.mark()]);
    let bytes: u64 = redis::cmd("MEMORY").arg(&["USAGE", &keys[0]]).query(&mut connection).unwrap();
    let expiry: i64 = redis::cmd("PTTL").arg(&keys[0]).query(&mut connection).unwrap();
    assert!(bytes <= 200 && expiry == -1, "{bytes} bytes, {expiry} ms");
    // While leases are in use, too.
    assert_eq!(limit.ask(100).granted, 100);
    server.run(&["DEL", &keys[0]]);
    let answer = limit.ask(100);
    let quarantine = u64::try_from(config().quarantine().as_micros()).unwrap();
    assert_eq!((answer.granted, answer.open_in), (0, quarantine));
}
