//! Limiters of several processes, with a network that loses messages and a server that restarts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use leaparray::flow::{LimiterExt, WaitQueue};
use leaparray::{Clock, Timestamp};
use tokio::task::LocalSet;
use tokio::time::sleep;

use leaparray_redis::LeasedLimiter;
use leaparray_redis::lease::LeaseConfig;

use crate::limiter::engine::{Far, Network, Simulated, builder, config, opened};

/// Returns the most uses in a window of 20 s, and all uses.
async fn simulate(seed: u64, faults: bool) -> (u64, u64) {
    let clock = Simulated::start();
    simulate_with(seed, faults, clock, Network::new(clock)).await
}

async fn simulate_with(seed: u64, faults: bool, clock: Simulated, network: Network) -> (u64, u64) {
    let used = Rc::new(RefCell::new(BTreeMap::<u64, u64>::new()));
    let nodes = LocalSet::new();
    for node in 0..4 {
        let (network, used) = (network.clone(), Rc::clone(&used));
        nodes.spawn_local(async move {
            let mut random = fastrand::Rng::with_seed(seed * 10 + node);
            let limiter = builder(clock).start(network).unwrap();
            let end = clock.now().saturating_add(Duration::from_secs(20));
            while clock.now() < end {
                let count = random.u64(1..3);
                let is_admitted = if random.bool() {
                    limiter.try_acquire_many(count).is_admitted()
                } else {
                    limiter.acquire_many(count).await.is_ok()
                };
                if is_admitted {
                    let bucket = clock.now().as_micros() / config().bucket_micros();
                    *used.borrow_mut().entry(bucket).or_default() += count;
                }
                sleep(Duration::from_millis(random.u64(1..40))).await;
            }
        });
    }
    let server = network.clone();
    nodes.spawn_local(async move {
        let mut random = fastrand::Rng::with_seed(seed);
        if !faults {
            return;
        }
        loop {
            sleep(Duration::from_millis(random.u64(200..2_000))).await;
            match random.u32(..3) {
                0 => server.restart(),
                1 => {
                    server.set_hangs(true);
                    sleep(Duration::from_millis(random.u64(..500))).await;
                    server.set_hangs(false);
                }
                _ => {
                    server.set_away(true);
                    sleep(Duration::from_millis(random.u64(..500))).await;
                    server.set_away(false);
                }
            }
        }
    });
    nodes.run_until(sleep(Duration::from_secs(21))).await;
    let used = used.borrow();
    let window = |first: u64| -> u64 { used.range(first..first + 10).map(|it| it.1).sum() };
    (used.keys().map(|&first| window(first)).max().unwrap_or_default(), used.values().sum())
}

#[tokio::test(start_paused = true)]
async fn limiters_use_the_limit_and_no_more() {
    for seed in 0..5 {
        let (most, total) = simulate(seed, false).await;
        assert!(most <= 100, "seed {seed}: {most}");
        // After the quarantine, 18 windows.
        assert!(total >= 1_600, "seed {seed}: {total}");
    }
}

#[tokio::test(start_paused = true)]
async fn limit_holds_under_faults() {
    let mut all = 0;
    for seed in 0..20 {
        let (most, total) = simulate(seed, true).await;
        assert!(most <= 100, "seed {seed}: {most}");
        all += total;
    }
    assert!(all >= 2_000, "{all}");
}

/// Clones of one image whose numbers are the same.
#[tokio::test(start_paused = true)]
async fn limiters_with_one_number_use_the_limit_and_no_more() {
    for seed in 0..5 {
        let clock = Simulated::start();
        let network = Network::new(clock);
        network.set_twins();
        let (most, total) = simulate_with(seed, false, clock, network).await;
        assert!(most <= 100, "seed {seed}: {most}");
        assert!(total >= 1_600, "seed {seed}: {total}");
    }
}

/// A clone is told at its first ask that has the number of an earlier one.
#[tokio::test(start_paused = true)]
async fn number_that_is_taken_is_given_up() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    network.set_twins();
    let limiters: Vec<_> = (0..4).map(|_| builder(clock).start(network.clone()).unwrap()).collect();
    sleep(Duration::from_secs(2)).await;
    let taken: Vec<_> = limiters.iter().map(|it| it.counts().taken).collect();
    assert_eq!(taken, [0, 1, 1, 1]);
    for limiter in &limiters {
        limiter.acquire().await.unwrap();
    }
    assert!(limiters.iter().all(|it| it.counts().taken <= 1));
}

/// Two processes of 40 waiting workers, one of them far from the server: each gets its share of a
/// limit in any second, and no second has more than the limit.
async fn far_limiter_gets_its_share(is_queue: bool) {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let config = LeaseConfig::new(400, Duration::from_secs(1)).unwrap();
    let used = Rc::new(RefCell::new(Vec::new()));
    let nodes = LocalSet::new();
    let round_trips = [Duration::ZERO, Duration::from_millis(100)];
    for (node, round_trip) in round_trips.into_iter().enumerate() {
        let (network, used) = (Far(network.clone(), round_trip), Rc::clone(&used));
        nodes.spawn_local(async move {
            let limiter = LeasedLimiter::builder("orders", config).with_clock(clock);
            let limiter = limiter.start(network).unwrap();
            let queue = Rc::new(WaitQueue::new(limiter.clone()));
            for _ in 0..40 {
                let (limiter, queue) = (limiter.clone(), Rc::clone(&queue));
                let used = Rc::clone(&used);
                tokio::task::spawn_local(async move {
                    loop {
                        let most = Duration::from_secs(2);
                        let is_admitted = if is_queue {
                            queue.acquire_with(1, most, sleep).await.is_ok()
                        } else {
                            limiter.acquire_within(most).await.is_ok()
                        };
                        if is_admitted {
                            used.borrow_mut().push((clock.now(), node));
                        }
                        sleep(Duration::from_millis(1)).await;
                    }
                });
            }
            std::future::pending::<()>().await;
        });
    }
    nodes.run_until(sleep(Duration::from_secs(12))).await;
    let used = used.borrow();
    let ended = |at| used.partition_point(|it| it.0.saturating_since(at) < config.interval());
    let most = used.iter().enumerate().map(|(first, it)| ended(it.0) - first).max().unwrap();
    assert_eq!(most, 400);
    let late: Vec<_> = used.iter().filter(|it| it.0 >= Timestamp::from_secs(66)).collect();
    let far = late.iter().filter(|it| it.1 == 1).count();
    let rate = late.len() / 6;
    assert!(rate >= 380, "{rate} in a second");
    assert!((far * 20).abs_diff(late.len() * 10) <= late.len(), "{far} of {}", late.len());
}

#[tokio::test(start_paused = true)]
async fn far_limiter_gets_its_share_of_any_second() {
    far_limiter_gets_its_share(false).await;
}

/// The limiter is told of the requests that wait in the queue.
#[tokio::test(start_paused = true)]
async fn far_queue_gets_its_share_of_any_second() {
    far_limiter_gets_its_share(true).await;
}

#[tokio::test(start_paused = true)]
async fn limit_of_a_later_node_holds_in_memory_as_on_a_server() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let first = opened(clock, &network).await;
    let config = config().with_limit(300).unwrap();
    let builder = LeasedLimiter::builder("orders", config).with_clock(clock);
    let later = builder.start(network.clone()).unwrap();
    later.acquire_many_within(250, Duration::from_secs(3)).await.unwrap();
    assert!(first.acquire_many(40).await.is_err(), "250 of its 100 are charged");
    drop(first);
    later.acquire_many_within(40, Duration::from_secs(3)).await.unwrap();
}
