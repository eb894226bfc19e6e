//! Limits that several instances share, without a server.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaparray::{ManualClock, Timestamp};
use leaparray_envoy::config::{Config, Unit};
use leaparray_envoy::service::{
    By, Descriptor, Fallback, Leases, Request, Service, Settings, Store,
};
use leaparray_redis::lease::{Answer, Ask, LeaseConfig, LeaseKeys};
use leaparray_redis::{Engine, EngineError, MemoryEngine};

const YAML: &str = "
domain: d
descriptors:
  - { key: all, value: x, rate_limit: { unit: second, requests_per_unit: 30 } }
  - { key: user, rate_limit: { unit: second, requests_per_unit: 20 } }
  - { key: big, value: x, rate_limit: { unit: second, requests_per_unit: 20000 } }
  - { key: none, rate_limit: { unit: second, requests_per_unit: 0 } }
  - { key: quota, rate_limit: { unit: minute, requests_per_unit: 9, requests_per_quota: 9 } }
";

/// An engine that counts asks, and does not answer those about users while it is `stuck`.
struct Counting {
    memory: MemoryEngine<ManualClock>,
    asks: AtomicU64,
    /// The incarnations that have asked.
    nodes: Mutex<HashSet<u64>>,
    stuck: AtomicBool,
}

impl Engine for Counting {
    async fn lease(
        &self,
        keys: &LeaseKeys,
        config: &LeaseConfig,
        ask: &Ask,
    ) -> Result<Answer, EngineError> {
        self.asks.fetch_add(1, Ordering::Relaxed);
        self.nodes.lock().unwrap().insert(ask.node);
        if self.stuck.load(Ordering::Relaxed) && keys.name().contains("user") {
            std::future::pending::<()>().await;
        }
        self.memory.lease(keys, config, ask).await
    }
}

struct Mesh {
    clock: ManualClock,
    engine: Arc<Counting>,
    instances: Vec<Service<ManualClock>>,
}

impl Mesh {
    fn new(instances: usize, settings: Settings) -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(3_600));
        let memory = MemoryEngine::with_clock(clock.clone());
        let (asks, nodes, stuck) = (AtomicU64::new(0), Mutex::default(), AtomicBool::new(false));
        let engine = Arc::new(Counting { memory, asks, nodes, stuck });
        let config = Config::from_yaml(YAML).unwrap();
        let instance = |_| {
            let leases = Leases::new("mesh", Arc::clone(&engine)).unwrap();
            let store = Store::Redis(leases.with_clock(clock.clone()));
            Service::with_settings(&config, &store, settings, clock.clone())
        };
        let instances = (0..instances).map(instance).collect();
        Self { clock, engine, instances }
    }

    /// Lets the tasks run, and the time pass for the limits as well.
    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        tokio::time::sleep(time).await;
    }

    async fn is_over(&self, instance: usize, descriptors: Vec<Descriptor>) -> bool {
        let service = &self.instances[instance];
        service.decide(&Request::new("d", descriptors), service.now()).await.over
    }

    /// Uses each limit once, and waits until its quarantine is over.
    async fn open(&self, descriptors: &[Descriptor]) {
        for instance in 0..self.instances.len() {
            for descriptor in descriptors {
                self.is_over(instance, vec![descriptor.clone()]).await;
            }
        }
        for _ in 0..20 {
            self.pass(Duration::from_millis(200)).await;
        }
    }
}

fn all() -> Descriptor {
    Descriptor::new([("all", "x")])
}

fn big() -> Descriptor {
    Descriptor::new([("big", "x")])
}

fn user(name: &str) -> Descriptor {
    Descriptor::new([("user", name)])
}

#[tokio::test(start_paused = true)]
async fn instances_share_each_limit_and_refused_requests_charge_none() {
    let mesh = Mesh::new(3, Settings::default());
    mesh.open(&[all(), user("ann"), user("bob")]).await;
    let mut admitted = 0;
    for at in 0..90 {
        admitted += usize::from(!mesh.is_over(at % 3, vec![all(), user("ann")]).await);
        mesh.pass(Duration::from_millis(1)).await;
    }
    assert!((17..=20).contains(&admitted), "{admitted} of 20 for the user");
    let mut rest = 0;
    for at in 0..90 {
        rest += usize::from(!mesh.is_over(at % 3, vec![all(), user("bob")]).await);
        mesh.pass(Duration::from_millis(1)).await;
    }
    // Refused requests of the first user took nothing of the limit of all.
    assert!((7..=30 - admitted).contains(&rest), "{rest} after {admitted}");
}

#[tokio::test(start_paused = true)]
async fn most_decisions_need_no_ask() {
    let mesh = Mesh::new(2, Settings::default());
    mesh.open(&[big()]).await;
    let request = Request::new("d", [big()]);
    let (mut decisions, mut admitted) = (0, 0);
    let mut asks = 0;
    for step in 0..400 {
        if step == 200 {
            (decisions, admitted) = (0, 0);
            asks = mesh.engine.asks.load(Ordering::Relaxed);
        }
        for service in &mesh.instances {
            for _ in 0..4 {
                decisions += 1;
                // Without a wait, so only from the permits in hand.
                admitted += u64::from(!service.decide_at(&request, service.now()).over);
            }
        }
        mesh.pass(Duration::from_millis(1)).await;
    }
    let asks = mesh.engine.asks.load(Ordering::Relaxed) - asks;
    assert!(admitted * 100 >= decisions * 99, "{admitted} of {decisions}, below the limit");
    assert!(asks * 20 <= decisions, "{asks} asks for {decisions} decisions");
}

#[tokio::test(start_paused = true)]
async fn new_key_of_a_known_mesh_begins_at_once() {
    let mesh = Mesh::new(2, Settings::default());
    mesh.open(&[all()]).await;
    for at in 0..5 {
        assert!(!mesh.is_over(at % 2, vec![user(&format!("new{at}"))]).await, "key {at}");
    }
    // Its hits count in the other instance.
    assert!(!mesh.is_over(0, vec![user("new0").with_hits(19)]).await);
    assert!(mesh.is_over(1, vec![user("new0")]).await);
}

#[tokio::test(start_paused = true)]
async fn fallback_decides_while_the_server_grants_nothing() {
    for (fallback, is_over) in [(Fallback::Closed, true), (Fallback::Open, false)] {
        let mut settings = Settings::default();
        settings.fallback = fallback;
        let mesh = Mesh::new(1, settings);
        mesh.open(&[all()]).await;
        assert!(!mesh.is_over(0, vec![all()]).await);
        mesh.engine.memory.restart();
        mesh.pass(Duration::from_secs(1)).await;
        mesh.is_over(0, vec![all().with_hits(30)]).await;
        mesh.pass(Duration::from_millis(50)).await;
        let service = &mesh.instances[0];
        let decision = service.decide(&Request::new("d", [all()]), service.now()).await;
        assert_eq!((decision.over, decision.statuses()[0].by), (is_over, By::StoreAway));
    }
}

#[tokio::test(start_paused = true)]
async fn limits_without_leases_are_decided() {
    for (fallback, is_over) in [(Fallback::Closed, true), (Fallback::Open, false)] {
        let mut settings = Settings::default();
        settings.fallback = fallback;
        let mesh = Mesh::new(1, settings);
        // Nothing is left of 0, whatever the fallback is.
        assert!(mesh.is_over(0, vec![Descriptor::new([("none", "x")])]).await);
        // A year has longer buckets than a lease can have.
        assert_eq!(mesh.is_over(0, vec![all().with_limit(5, Unit::Year)]).await, is_over);
        assert!(!mesh.is_over(0, vec![Descriptor::new([("other", "x")])]).await);
        assert_eq!(mesh.instances[0].keys(), 0);
    }
    let mesh = Mesh::new(1, Settings::default());
    for unit in [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month] {
        mesh.is_over(0, vec![all().with_limit(u32::MAX, unit)]).await;
    }
    assert_eq!(mesh.instances[0].keys(), 6);
}

#[tokio::test(start_paused = true)]
async fn request_waits_for_its_limits_together() {
    let mesh = Mesh::new(1, Settings::default());
    mesh.open(&[all()]).await;
    mesh.engine.stuck.store(true, Ordering::Relaxed);
    let began = tokio::time::Instant::now();
    let users = (0..5).map(|at| user(&format!("user{at}"))).collect();
    assert!(mesh.is_over(0, users).await);
    assert_eq!(began.elapsed().as_millis(), 200);
}

/// Requests of one client that give two numbers in turn: each number has its leases.
#[tokio::test(start_paused = true)]
async fn limits_of_requests_keep_their_leases() {
    let mesh = Mesh::new(1, Settings::default());
    mesh.open(&[all()]).await;
    let before = mesh.engine.nodes.lock().unwrap().len();
    let mut admitted = 0;
    for at in 0..200 {
        let limit = user("ann").with_limit(if at % 2 == 0 { 10 } else { 20 }, Unit::Second);
        admitted += u64::from(!mesh.is_over(0, vec![limit]).await);
        mesh.pass(Duration::from_millis(1)).await;
    }
    assert!((10..=20).contains(&admitted), "{admitted} of 20 in all");
    assert_eq!(mesh.engine.nodes.lock().unwrap().len() - before, 2);
}

/// A client drops its request while the limit of its user waits for the server. A new limit has
/// waited for an answer by then, and is charged; one with permits in hand is not charged yet.
#[tokio::test(start_paused = true)]
async fn request_that_is_dropped_while_it_waits_is_charged_nothing() {
    let mesh = Mesh::new(1, Settings::default());
    mesh.open(&[all()]).await;
    mesh.engine.stuck.store(true, Ordering::Relaxed);
    let new = |at: &str| Descriptor::new([("new", at)]).with_limit(30, Unit::Second);
    for at in ["a", "b", "c"] {
        let request = vec![new(at), all(), user(at)];
        let waits = mesh.is_over(0, request);
        let dropped = tokio::time::timeout(Duration::from_millis(50), waits).await;
        assert!(dropped.is_err(), "it waits for the limit of the user");
    }
    for descriptor in [new("a"), new("b"), new("c"), all()] {
        let mut admitted = 0;
        for _ in 0..40 {
            admitted += usize::from(!mesh.is_over(0, vec![descriptor.clone()]).await);
        }
        assert_eq!(admitted, 30, "{descriptor:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn leases_have_no_quotas() {
    let mesh = Mesh::new(1, Settings::default());
    let quota = Descriptor::new([("quota", "x")]);
    let request = Request::new("d", [quota.clone()]);
    let config = Config::from_yaml(YAML).unwrap();
    let (settings, clock) = (Settings::default(), mesh.clock.clone());
    let alone = Service::with_settings(&config, &Store::Memory, settings, clock);
    assert!(alone.decide_at(&request, alone.now()).statuses()[0].quota.is_some());
    mesh.open(&[quota]).await;
    mesh.pass(Duration::from_secs(90)).await;
    let service = &mesh.instances[0];
    let decision = service.decide(&request, service.now()).await;
    assert!(!decision.over && decision.statuses()[0].quota.is_none(), "{decision:?}");
}

/// Two requests take the memory of those that may wait. The next one is decided at once, and
/// charged nothing by the limit that would wait.
#[tokio::test(start_paused = true)]
async fn request_without_room_to_wait_is_decided_by_the_fallback() {
    for (fallback, is_over, left) in [(Fallback::Closed, true, 30), (Fallback::Open, false, 29)] {
        let mut settings = Settings::default();
        (settings.fallback, settings.max_waiting) = (fallback, 10 << 10);
        let mesh = Mesh::new(1, settings);
        // A limit that has had an answer, so that its store is not away.
        mesh.open(&[all(), user("ann"), user("bob"), user("eve")]).await;
        mesh.engine.stuck.store(true, Ordering::Relaxed);
        let began = tokio::time::Instant::now();
        let ask = |descriptors: Vec<Descriptor>| {
            let service = mesh.instances[0].clone();
            async move { service.decide(&Request::new("d", descriptors), service.now()).await }
        };
        let waiting = ["ann", "bob"].map(|name| tokio::spawn(ask(vec![user(name).with_hits(20)])));
        tokio::task::yield_now().await;
        let third = ask(vec![all(), user("eve").with_hits(20)]).await;
        assert_eq!(began.elapsed().as_millis(), 0);
        let by = third.statuses()[1].by;
        assert_eq!((third.over, by), (is_over, By::TooManyWaiting), "{third:?}");
        for waiting in waiting {
            assert!(waiting.await.unwrap().over, "not answered");
        }
        assert_eq!(began.elapsed().as_millis(), 200);
        let mut admitted = 0;
        for _ in 0..40 {
            admitted += usize::from(!mesh.is_over(0, vec![all()]).await);
        }
        assert_eq!(admitted, left);
    }
}

/// Each way out of a wait makes room: the time-out, and the drop of the request.
#[tokio::test(start_paused = true)]
async fn request_that_ends_its_wait_makes_room() {
    let mut settings = Settings::default();
    settings.max_waiting = 5 << 10;
    let mesh = Mesh::new(1, settings);
    mesh.open(&[all()]).await;
    mesh.engine.stuck.store(true, Ordering::Relaxed);
    let ask = |at: String| {
        let service = mesh.instances[0].clone();
        async move { service.decide(&Request::new("d", [user(&at)]), service.now()).await }
    };
    for round in 0..5 {
        let dropped = Duration::from_millis(50);
        let dropped = tokio::time::timeout(dropped, ask(format!("dropped{round}"))).await;
        assert!(dropped.is_err(), "round {round}: {dropped:?}, no room after a time-out");
        let late = ask(format!("late{round}")).await;
        let by = late.statuses()[0].by;
        assert_ne!(by, By::TooManyWaiting, "round {round}: no room after a drop");
    }
}
