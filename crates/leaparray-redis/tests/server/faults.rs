//! Nodes in one process, and a server that fails.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use leaparray_redis::lease::{Answer, Ask, LeaseConfig, LeaseKeys};
use leaparray_redis::{Engine, EngineError, LeaseState, LeasedLimiter, RedisEngine};
use tokio::runtime::Runtime;

use crate::audit::Audit;
use crate::server::Server;
use crate::worker::work;

/// 100 permits in 500 ms. The quarantine takes 670 ms.
fn config() -> LeaseConfig {
    let config = LeaseConfig::new(100, Duration::from_millis(500)).unwrap();
    config.with_validity(15).unwrap()
}

/// The states of a limiter, in order.
type States = Arc<Mutex<Vec<LeaseState>>>;

/// Runs three nodes for `span` while `fault` runs on this thread. Returns the uses, and the states
/// of one node.
fn run<E: Engine + Clone>(
    engine: impl Fn() -> E,
    span: Duration,
    fault: impl FnOnce(),
) -> (Audit, Vec<LeaseState>) {
    let runtime = Runtime::new().unwrap();
    let states = States::default();
    let nodes: Vec<_> = (0..3)
        .map(|_| {
            let _guard = runtime.enter();
            let limiter = LeasedLimiter::builder("orders", config()).start(engine()).unwrap();
            let states = Arc::clone(&states);
            runtime.spawn(async move {
                let mut changes = limiter.watch();
                let watch = tokio::spawn(async move {
                    loop {
                        states.lock().unwrap().push(changes.borrow_and_update().clone());
                        if changes.changed().await.is_err() {
                            return;
                        }
                    }
                });
                let mut uses = Vec::new();
                work(&limiter, span, Duration::from_millis(2), |it| uses.push(it)).await;
                limiter.close().await;
                watch.abort();
                uses
            })
        })
        .collect();
    fault();
    let uses = nodes.into_iter().flat_map(|it| runtime.block_on(it).unwrap());
    let audit = Audit::new(uses);
    let states = states.lock().unwrap().clone();
    (audit, states)
}

fn millis(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

fn quarantines(states: &[LeaseState]) -> usize {
    states.iter().filter(|it| matches!(it, LeaseState::Quarantine { .. })).count()
}

#[test]
#[ignore = "needs redis-server"]
fn limit_holds_when_the_server_is_killed() {
    let Some(mut server) = Server::start("a server that is killed") else { return };
    let address = server.address();
    let engine = || RedisEngine::open(&address).unwrap();
    let (audit, states) = run(engine, Duration::from_secs(4), || {
        millis(1_500);
        server.kill_and_restart();
    });
    audit.check(config(), 4.0, 0.3);
    assert!(states.iter().any(|it| matches!(it, LeaseState::Away { .. })), "{states:?}");
    assert_eq!(quarantines(&states), 6, "one at the start, and one after the restart: {states:?}");
}

#[test]
#[ignore = "needs redis-server"]
fn limit_holds_when_all_keys_are_flushed() {
    let Some(server) = Server::start("keys that are flushed") else { return };
    let address = server.address();
    let engine = || RedisEngine::open(&address).unwrap();
    let (audit, states) = run(engine, Duration::from_secs(4), || {
        millis(1_500);
        server.run(&["FLUSHALL"]);
    });
    audit.check(config(), 4.0, 0.3);
    assert_eq!(quarantines(&states), 6, "{states:?}");
}

#[test]
#[ignore = "needs redis-server"]
fn limit_holds_when_the_charges_are_evicted() {
    let Some(server) = Server::start("charges that are evicted") else { return };
    let address = server.address();
    let keys = LeaseKeys::new("orders", &config()).unwrap();
    let engine = || RedisEngine::open(&address).unwrap();
    let (audit, states) = run(engine, Duration::from_secs(4), || {
        millis(1_500);
        server.run(&["DEL", &keys.charges()]);
    });
    audit.check(config(), 4.0, 0.3);
    assert_eq!(quarantines(&states), 6, "{states:?}");
}

#[test]
#[ignore = "needs redis-server"]
fn limit_holds_while_the_server_pauses() {
    let Some(server) = Server::start("a server that pauses") else { return };
    let address = server.address();
    let engine = || RedisEngine::open(&address).unwrap();
    let (audit, states) = run(engine, Duration::from_secs(4), || {
        for _ in 0..4 {
            millis(600);
            server.run(&["CLIENT", "PAUSE", "250", "ALL"]);
        }
    });
    audit.check(config(), 4.0, 0.3);
    assert_eq!(quarantines(&states), 3, "the state is not lost: {states:?}");
}

/// Sends asks to the primary.
#[derive(Clone)]
struct Failover(Arc<ArcSwap<RedisEngine>>);

impl Engine for Failover {
    async fn lease(
        &self,
        keys: &LeaseKeys,
        config: &LeaseConfig,
        ask: &Ask,
    ) -> Result<Answer, EngineError> {
        self.0.load_full().lease(keys, config, ask).await
    }
}

#[test]
#[ignore = "needs redis-server"]
fn limit_holds_when_a_replica_that_lags_is_promoted() {
    let Some(first) = Server::start("a replica that is promoted") else { return };
    let Some(second) = Server::start("a replica that is promoted") else { return };
    second.follow(&first);
    let runtime = Runtime::new().unwrap();
    let engines = [&first, &second].map(|it| {
        let _guard = runtime.enter();
        RedisEngine::open(&it.address()).unwrap()
    });
    let [primary, replica] = engines.map(Arc::new);
    let current = Arc::new(ArcSwap::from(primary));
    let (audit, states) = run(
        || Failover(Arc::clone(&current)),
        Duration::from_secs(4),
        || {
            millis(1_500);
            second.run(&["REPLICAOF", "NO", "ONE"]);
            // What the primary grants from here on is lost.
            millis(200);
            current.store(replica);
        },
    );
    audit.check(config(), 4.0, 0.3);
    assert_eq!(quarantines(&states), 6, "{states:?}");
}
