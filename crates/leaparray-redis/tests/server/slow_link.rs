//! Fetches of a reader beside the asks of a limiter, over a slow link.

use std::time::{Duration, SystemTime};

use leaparray_redis::fleet::{FleetConfig, FleetKeys, ProcessId};
use leaparray_redis::lease::{Ask, LeaseConfig, LeaseKeys};
use leaparray_redis::{Engine, FleetEngine, RedisEngine};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep_until};

use crate::proxy::{Link, Proxy};
use crate::server::Server;

/// 8 Mbit/s.
const BYTES_PER_SEC: u32 = 1_000_000;
/// A reader fetches the seconds of as many processes at once, each of up to 32 KiB.
const PROCESSES: u64 = 64;
const BYTES: usize = 32 << 10;

/// Sends an ask each 20 ms for a while. Returns the median of the times of the answers.
async fn answers(engine: &RedisEngine, span: Duration) -> Duration {
    let config = LeaseConfig::new(100, Duration::from_secs(1)).unwrap();
    let keys = LeaseKeys::new("orders", &config).unwrap();
    let end = Instant::now() + span;
    let mut asks = Vec::new();
    for node in 1.. {
        let sent = Instant::now();
        if sent >= end {
            break;
        }
        let (seq, nonce, epoch, seen) = (1, 1, None, 0);
        let (want, validity, horizon, weight, moves) = (0, 0, 0, 0, vec![]);
        let ask = Ask { node, seq, nonce, epoch, seen, want, validity, horizon, weight, moves };
        let (engine, keys) = (engine.clone(), keys.clone());
        asks.push(tokio::spawn(async move {
            engine.lease(&keys, &config, &ask).await.unwrap();
            sent.elapsed()
        }));
        sleep_until(sent + Duration::from_millis(20)).await;
    }
    let mut times = Vec::new();
    for it in asks {
        times.push(it.await.unwrap());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

/// A fetch takes two seconds, and asks of the same engine do not wait for it.
#[test]
#[ignore = "needs redis-server"]
fn fetches_of_a_reader_delay_no_ask() {
    let Some(server) = Server::start("a reader on a slow link") else { return };
    let config = FleetConfig::default();
    let keys = FleetKeys::new("shop", &config).unwrap();
    let second = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let mut fill = redis::cmd("HSET");
    fill.arg(keys.second(second));
    for process in 0..PROCESSES {
        fill.arg(ProcessId(process).to_string()).arg(vec![b'.'; BYTES]);
    }
    fill.exec(&mut server.connect()).unwrap();
    Runtime::new().unwrap().block_on(async {
        let link = Link { bytes_per_sec: BYTES_PER_SEC, ..Link::default() };
        let proxy = Proxy::start(server.port(), link).await;
        let engine = RedisEngine::open(proxy.address()).unwrap();
        let alone = answers(&engine, Duration::from_secs(1)).await;
        let sent = Instant::now();
        let reader = engine.clone();
        let fetched = tokio::spawn(async move {
            let processes: Vec<_> = (0..PROCESSES).map(ProcessId).collect();
            let found = reader.second(&keys, &config, second, &processes).await.unwrap();
            (found, sent.elapsed())
        });
        let beside = answers(&engine, Duration::from_secs(2)).await;
        let (found, took) = fetched.await.unwrap();
        println!("a fetch takes {took:?}; answers {beside:?} beside it, {alone:?} without it");
        assert!(found.iter().all(|it| it.as_ref().is_some_and(|it| it.len() == BYTES)));
        assert!(took > Duration::from_millis(1_900), "the link is slow: {took:?}");
        assert!(beside < Duration::from_millis(300), "{beside:?}, {alone:?} without a fetch");
    });
}
