//! What a server keeps of a limit: a snapshot of its memory that comes back, and the mark.

use std::thread::sleep;
use std::time::Duration;

use leaparray_redis::lease::{Answer, Ask, LeaseConfig, LeaseKeys};
use leaparray_redis::{Engine, RedisEngine};
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

    fn ask(&mut self, want: u64) -> Answer {
        self.nodes += 1;
        let (node, nonce, weight) = (self.nodes, self.nodes, want);
        let (seq, epoch, validity, horizon, moves) = (1, None, 15, 0, Vec::new());
        let ask = Ask { node, seq, nonce, epoch, want, validity, horizon, weight, moves };
        self.runtime.block_on(self.engine.lease(&self.keys, &config(), &ask)).unwrap()
    }
}

/// Returns all keys with their values, as a snapshot of the memory has them.
fn snapshot(connection: &mut redis::Connection) -> Vec<(String, Vec<u8>)> {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
    let dump = |key: &String| redis::cmd("DUMP").arg(key).query(connection).unwrap();
    let values: Vec<Vec<u8>> = keys.iter().map(dump).collect();
    keys.into_iter().zip(values).collect()
}

/// The server has its `run_id` and `master_replid` of before, and does not know that it has lost
/// grants: they are granted once more. A restart afterwards ends that.
#[test]
#[ignore = "needs redis-server"]
fn server_restored_from_its_memory_grants_the_limit_once_more() {
    let Some(mut server) = Server::start("a snapshot of a server's memory") else { return };
    let mut limit = Limit::new(&server);
    let before = snapshot(&mut server.connect());
    assert_eq!(limit.ask(100).granted, 100);
    for (key, value) in before {
        let mut restore = redis::cmd("RESTORE");
        let restore = restore.arg(key).arg(60_000).arg(value).arg("REPLACE");
        restore.exec(&mut server.connect()).unwrap();
    }
    assert_eq!([60, 60, 60].map(|want| limit.ask(want).granted), [60, 40, 0]);
    server.kill_and_restart();
    let mut limit = Limit::new(&server);
    assert_eq!(limit.ask(100).granted, 100, "after the quarantine");
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
