//! Queues, costs, leases, restarts and a slow network at once.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use leaparray::flow::WaitQueue;
use leaparray::flow::settle::{Settle, Settling};
use leaparray::{Clock, Timestamp};
use leaparray_redis::lease::{Answer, Ask, LeaseConfig, LeaseKeys};
use leaparray_redis::{Engine, EngineError, LeasedLimiter};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::sleep;

use crate::limiter::engine::{Network, Simulated};

const SECOND: Duration = Duration::from_secs(1);
/// For how long there are faults, and the time after them.
const FAULTS: Duration = Duration::from_secs(20);
const REST: Duration = Duration::from_secs(10);

/// A network whose messages take up to 250 ms each way, are lost, and arrive twice. An ask that is
/// given up may still arrive.
#[derive(Clone)]
struct Unsteady {
    network: Network,
    random: Arc<Mutex<Rng>>,
    is_steady: Arc<AtomicBool>,
}

impl Unsteady {
    /// Draws the time of a message; `None` if it is lost.
    fn way(&self) -> Option<Duration> {
        let mut random = self.random.lock().unwrap();
        if self.is_steady.load(Ordering::Relaxed) {
            return Some(Duration::from_millis(random.u64(0..10)));
        }
        let longest = if random.u8(..5) == 0 { 250 } else { 40 };
        (random.u8(..20) > 0).then(|| Duration::from_millis(random.u64(0..longest)))
    }
}

impl Engine for Unsteady {
    async fn lease(
        &self,
        keys: &LeaseKeys,
        config: &LeaseConfig,
        ask: &Ask,
    ) -> Result<Answer, EngineError> {
        let (sender, receiver) = oneshot::channel();
        let mut sender = Some(sender);
        let is_repeated =
            !self.is_steady.load(Ordering::Relaxed) && self.random.lock().unwrap().u8(..10) == 0;
        for _ in 0..=u8::from(is_repeated) {
            let (sender, network, ways) =
                (sender.take(), self.network.clone(), [self.way(), self.way()]);
            let (keys, config, ask) = (keys.clone(), *config, ask.clone());
            tokio::spawn(async move {
                let [Some(there), back] = ways else { return };
                sleep(there).await;
                let answer = network.lease(&keys, &config, &ask).await;
                if let (Some(back), Some(sender)) = (back, sender) {
                    sleep(back).await;
                    let _ = sender.send(answer);
                }
            });
        }
        match receiver.await {
            Ok(answer) => answer,
            // Lost.
            Err(_) => std::future::pending().await,
        }
    }
}

/// The uses: when each request was decided, and what it has used of its permits.
type Uses = Rc<RefCell<Vec<(Timestamp, u64)>>>;

/// Requests of one task, one after the other, until the end.
async fn requests(
    queue: &WaitQueue<&Settling<LeasedLimiter<Simulated>>>,
    clock: Simulated,
    mut random: Rng,
    uses: Uses,
) {
    loop {
        let (estimate, start) = (random.u64(1..10), clock.now());
        let wait = Duration::from_millis(random.u64(0..1_500));
        let reserved = queue.acquire_with(estimate, wait, sleep).await;
        let waited = clock.now().saturating_since(start);
        assert!(waited <= wait + Duration::from_millis(2), "{waited:?} of {wait:?}");
        let Ok(reserved) = reserved else {
            sleep(Duration::from_millis(5)).await;
            continue;
        };
        let cost = if random.u8(..4) == 0 { random.u64(0..=estimate) } else { estimate };
        uses.borrow_mut().push((clock.now(), cost));
        sleep(Duration::from_millis(random.u64(0..500))).await;
        reserved.settle_at(clock.now(), cost);
    }
}

/// A process that starts again and again: it closes its limiter, or drops it.
async fn process(
    engine: Unsteady,
    config: LeaseConfig,
    clock: Simulated,
    mut random: Rng,
    uses: Uses,
) {
    loop {
        let limiter = LeasedLimiter::builder("orders", config).with_clock(clock);
        let settling = Settling::new(limiter.start(engine.clone()).unwrap());
        let queue = WaitQueue::new(&settling);
        let is_steady = engine.is_steady.load(Ordering::Relaxed);
        let life = if is_steady { 3_600_000 } else { random.u64(500..8_000) };
        let works = async {
            let mut tasks: Vec<_> = (0..8)
                .map(|_| Box::pin(requests(&queue, clock, random.fork(), Rc::clone(&uses))))
                .collect();
            std::future::poll_fn(|cx| {
                for task in &mut tasks {
                    let _ = task.as_mut().poll(cx);
                }
                std::task::Poll::<()>::Pending
            })
            .await;
        };
        let _ = tokio::time::timeout(Duration::from_millis(life), works).await;
        if random.bool() {
            settling.limiter().close().await;
        }
    }
}

/// The server restarts, does not answer, or hangs.
async fn faults(network: &Network, mut random: Rng, clock: Simulated) {
    let end = clock.now().saturating_add(FAULTS);
    while clock.now() < end {
        sleep(Duration::from_millis(random.u64(300..3_000))).await;
        let span = Duration::from_millis(random.u64(50..1_200));
        match random.u8(..4) {
            0 => network.restart(),
            1 => {
                network.set_away(true);
                sleep(span).await;
                network.set_away(false);
            }
            2 => {
                network.set_hangs(true);
                sleep(span).await;
                network.set_hangs(false);
            }
            _ => {}
        }
    }
}

/// In each window, at most the limit is used, no request waits for longer than it wanted to, and
/// after the faults the limit is used again.
#[tokio::test(start_paused = true)]
async fn limit_holds_and_is_used_again_after_all_faults() {
    for seed in 0..16 {
        let any_second = LeaseConfig::new(100, SECOND).unwrap();
        let buckets = LeaseConfig::of_buckets(100, 10, SECOND).unwrap();
        let config = if seed % 2 == 0 { buckets } else { any_second };
        let (clock, mut random) = (Simulated::start(), Rng::with_seed(seed));
        let network = Network::new(clock);
        let (uses, is_steady) = (Uses::default(), Arc::new(AtomicBool::new(false)));
        let nodes = LocalSet::new();
        for _ in 0..4 {
            let of_engine = Arc::new(Mutex::new(random.fork()));
            let is_steady = Arc::clone(&is_steady);
            let engine = Unsteady { network: network.clone(), random: of_engine, is_steady };
            nodes.spawn_local(process(engine, config, clock, random.fork(), Rc::clone(&uses)));
        }
        let course = async {
            faults(&network, random.fork(), clock).await;
            is_steady.store(true, Ordering::Relaxed);
            sleep(REST).await;
        };
        nodes.run_until(course).await;
        let (all, end) = (uses.borrow(), clock.now());
        let length = config.bucket_micros();
        let start = |at: Timestamp| match seed % 2 {
            0 => at.as_micros() / length * length,
            _ => at.as_micros(),
        };
        let sum = |from: u64, span: u64| -> u64 {
            let is_in = |it: &&(Timestamp, u64)| (from..from + span).contains(&start(it.0));
            all.iter().filter(is_in).map(|it| it.1).sum()
        };
        let most = all.iter().map(|it| sum(start(it.0), 1_000_000)).max().unwrap();
        assert!(most <= 100, "seed {seed}: {most}");
        let last = sum(end.as_micros() - 3_000_000, 3_000_000);
        println!("seed {seed}: {most} at most, {last} of 300 in the last three seconds");
        assert!(last >= 150, "seed {seed}: {last} of 300 after the faults");
    }
}
