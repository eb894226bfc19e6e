//! Costs above their estimates, over the limit of a fleet.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use leaparray::flow::WaitQueue;
use leaparray::flow::settle::{Settle, Settling};
use leaparray::{Clock, Timestamp};
use leaparray_redis::LeasedLimiter;
use leaparray_redis::lease::LeaseConfig;
use tokio::task::LocalSet;
use tokio::time::sleep;

use crate::limiter::engine::{Far, Network, Simulated, config, opened};

/// The limit is 100 in a second: the excess is taken from later permits of the fleet.
#[tokio::test(start_paused = true)]
async fn debt_is_paid_by_permits_of_the_fleet() {
    let clock = Simulated::start();
    let limiter = opened(clock, &Network::new(clock)).await;
    sleep(Duration::from_secs(5)).await;
    let settling = Settling::new(limiter);
    let queue = WaitQueue::new(&settling);
    let acquire = |permits| queue.acquire_with(permits, Duration::from_secs(30), sleep);
    let reserved = acquire(5).await.unwrap();
    let start = clock.now();
    let settled = reserved.settle_at(start, 300);
    assert_eq!(settled.excess, 295);
    assert_eq!(u128::from(settled.owed), settling.debt());
    assert!((200..=295).contains(&settled.owed), "{settled:?}");
    let reserved = acquire(5).await.unwrap();
    let waited = clock.now().saturating_since(start);
    // 305 of at most 100 in any second: the last ones come after three full seconds.
    let bounds = Duration::from_millis(2_700)..Duration::from_secs(6);
    assert!(bounds.contains(&waited), "{waited:?}");
    assert_eq!((settling.debt(), reserved.settle_at(clock.now(), 5).excess), (0, 0));
}

/// A request reserves all of the limit and costs a tenth. The rest is in hand again, or free on
/// the server after the next ask, long before the window is over.
#[tokio::test(start_paused = true)]
async fn surplus_is_given_back() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    sleep(Duration::from_secs(5)).await;
    let settling = Settling::new(limiter.clone());
    let queue = WaitQueue::new(&settling);
    let acquire = |permits| queue.acquire_with(permits, Duration::from_secs(30), sleep);
    let reserved = acquire(100).await.unwrap();
    let start = clock.now();
    assert_eq!(limiter.in_hand(), 0);
    let settled = reserved.settle_at(start, 10);
    assert_eq!((settled.given_back, limiter.in_hand()), (90, 90));
    // Later, the charge is in an earlier bucket, and the server gets what is given back.
    let reserved = acquire(90).await.unwrap();
    sleep(Duration::from_millis(300)).await;
    assert_eq!(reserved.settle_at(clock.now(), 5).given_back, 85);
    limiter.acquire_many_within(20, Duration::from_millis(200)).await.unwrap();
    assert!(clock.now().saturating_since(start) < Duration::from_millis(600));
}

/// Four processes reserve more than they use, and settle after up to half of a window, in turn by a
/// limit of given buckets and of any second. In each window, what is used is at most the limit, and
/// a part of it could not be used without what is given back.
#[tokio::test(start_paused = true)]
async fn limit_holds_for_what_is_used() {
    for seed in 0..4 {
        let any_second = LeaseConfig::new(100, Duration::from_secs(1)).unwrap();
        let config = if seed % 2 == 0 { config() } else { any_second };
        let clock = Simulated::start();
        let network = Network::new(clock);
        let used = Rc::new(RefCell::new(Vec::new()));
        let nodes = LocalSet::new();
        for node in 0..4 {
            let far = Far(network.clone(), Duration::from_millis(node * 30));
            let used = Rc::clone(&used);
            nodes.spawn_local(async move {
                let limiter = LeasedLimiter::builder("orders", config).with_clock(clock);
                let settling = Rc::new(Settling::new(limiter.start(far).unwrap()));
                for worker in 0..8 {
                    let (settling, used) = (Rc::clone(&settling), Rc::clone(&used));
                    let mut random = fastrand::Rng::with_seed(seed * 100 + node * 10 + worker);
                    tokio::task::spawn_local(async move {
                        let queue = WaitQueue::new(&*settling);
                        loop {
                            let estimate = random.u64(1..10);
                            let wait = Duration::from_millis(random.u64(0..300));
                            let reserved = queue.acquire_with(estimate, wait, sleep).await;
                            let Ok(reserved) = reserved else {
                                sleep(Duration::from_millis(5)).await;
                                continue;
                            };
                            let cost = random.u64(0..=estimate);
                            used.borrow_mut().push((clock.now(), cost));
                            sleep(Duration::from_millis(random.u64(0..500))).await;
                            reserved.settle_at(clock.now(), cost);
                        }
                    });
                }
                std::future::pending::<()>().await;
            });
        }
        nodes.run_until(sleep(Duration::from_secs(20))).await;
        let used = used.borrow();
        let length = config.bucket_micros();
        let start = |at: Timestamp| match seed % 2 {
            0 => at.as_micros() / length * length,
            _ => at.as_micros(),
        };
        let sum = |first: u64| -> u64 {
            let is_in = |it: &&(Timestamp, u64)| (first..first + 1_000_000).contains(&start(it.0));
            used.iter().filter(is_in).map(|it| it.1).sum()
        };
        let most = used.iter().map(|it| sum(start(it.0))).max().unwrap();
        assert!((50..=100).contains(&most), "seed {seed}: {most}");
    }
}
