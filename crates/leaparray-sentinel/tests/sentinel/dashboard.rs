//! A stand-in for the dashboard, which asks for the seconds in the recorded order and at the
//! recorded times.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use fastrand::Rng;
use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, Success};
use leaparray::node::OnDrop;
use leaparray::{Entry, TrafficType};

use crate::service::{START, Service};

/// How far the first question reaches back, in milliseconds.
const REACH: u64 = 15_000;

/// The span of a question: seven seconds, with both ends.
const SPAN: u64 = 6_000;

/// The names that the dashboard drops.
const RESERVED: [&str; 3] = ["__total_inbound_traffic__", "__system_load__", "__cpu_usage__"];

/// Passes, blocks, successes, exceptions.
type Counts = [u64; 4];

/// A resource in a second.
type Key = (String, u64);

#[derive(Default)]
struct Dashboard {
    /// The end of the last question.
    last: Option<u64>,
    /// The stored counts, and how many times each was stored.
    stored: HashMap<Key, (Counts, u32)>,
    questions: Vec<(u64, u64)>,
}

impl Dashboard {
    /// The task of each second. Returns the question, if there is one.
    fn question(&mut self, now: u64) -> Option<(u64, u64)> {
        let start = (now - REACH).max(self.last.map_or(0, |it| it + 1_000)) / 1_000 * 1_000;
        let end = start + SPAN;
        if end > now - 2_000 {
            return None;
        }
        self.last = Some(end);
        self.questions.push((start, end));
        Some((start, end))
    }

    /// Reads an answer: adds up the lines of a resource and a second, and stores each sum.
    fn read(&mut self, body: &str) {
        let mut sums: BTreeMap<Key, Counts> = BTreeMap::new();
        for line in body.lines() {
            let fields: Vec<_> = line.split('|').collect();
            assert!(fields.len() >= 7, "{line}");
            let number = |index: usize| fields[index].parse::<u64>().expect(line);
            if RESERVED.contains(&fields[1]) {
                continue;
            }
            let sum = sums.entry((fields[1].to_owned(), number(0) / 1_000)).or_default();
            for (index, sum) in sum.iter_mut().enumerate() {
                *sum += number(2 + index);
            }
        }
        for (key, sum) in sums {
            let stored = self.stored.entry(key).or_default();
            *stored = (sum, stored.1 + 1);
        }
    }

    async fn tick(&mut self, service: &Service, now: u64) {
        if let Some((start, end)) = self.question(now) {
            let path = format!("/metric?startTime={start}&endTime={end}&refetch=false");
            let (status, body) = service.get(&path).await;
            assert_eq!(status, 200, "{body}");
            self.read(&body);
        }
    }
}

#[test]
fn questions_follow_each_other_without_a_gap() {
    let mut dashboard = Dashboard::default();
    for second in 0..60 {
        dashboard.question(START * 1_000 + 370 + second * 1_000);
    }
    let pairs = dashboard.questions.windows(2);
    assert!(pairs.clone().all(|it| it[1].0 == it[0].1 + 1_000), "{:?}", dashboard.questions);
    assert!(pairs.count() >= 7);
}

/// A request of a service: entered, blocked, or ended in any way. Returns the second of its pass,
/// and of its end.
fn request(service: &Service, rng: &mut Rng, expected: &mut HashMap<Key, Counts>) {
    let name = ["GET /orders", "POST /pay", "jobs", "a|b"][rng.usize(..4)];
    let traffic = if name == "jobs" { TrafficType::Outbound } else { TrafficType::Inbound };
    let mut resource = service.registry.resource_with(name, traffic).unwrap();
    if rng.bool() {
        resource = resource.in_context(["web", "batch"][rng.usize(..2)]).unwrap();
    }
    let mut count = |index: usize| {
        let key = (name.replace('|', "_"), service.second());
        expected.entry(key).or_default()[index] += 1;
    };
    if rng.u8(..4) == 0 {
        count(1);
        resource.block();
        return;
    }
    count(0);
    let entry = Entry::enter(resource);
    service.clock.advance(Duration::from_micros(rng.u64(..20_000)));
    count(2);
    match rng.u8(..8) {
        0 => {
            count(3);
            entry.exception();
        }
        1 => drop(entry.on_drop(OnDrop::Cancelled)),
        _ => entry.success(),
    }
}

impl Service {
    fn second(&self) -> u64 {
        use leaparray::Clock;
        self.clock.now().as_secs()
    }

    fn millis(&self) -> u64 {
        use leaparray::Clock;
        self.clock.now().as_millis()
    }
}

/// Ten minutes, in which the dashboard's timer has any phase, and some of its ticks are late.
async fn ten_minutes(seed: u64) {
    let service = Service::new();
    let mut rng = Rng::with_seed(seed);
    let (mut dashboard, mut expected) = (Dashboard::default(), HashMap::new());
    let phase = rng.u64(..1_000);
    let mut next = (START + 10) * 1_000 + phase;
    let end = (START + 600) * 1_000;
    while service.millis() < end + 2 * REACH {
        if service.millis() < end {
            for _ in 0..rng.usize(..6) {
                request(&service, &mut rng, &mut expected);
            }
        }
        service.pass(rng.u64(1..120));
        if rng.u16(..500) == 0 {
            // A resource whose requests have ended may be evicted, and be listed again.
            use leaparray::Clock;
            service.registry.evict_idle_at(service.clock.now(), Duration::ZERO);
        }
        if service.millis() >= next {
            let late = if rng.u8(..10) == 0 { rng.u64(..2_500) } else { rng.u64(..20) };
            service.pass(late);
            dashboard.tick(&service, service.millis()).await;
            // As `scheduleAtFixedRate`: a late tick does not move the others.
            next += 1_000;
        }
    }
    assert_eq!(dashboard.questions[0].0 / 1_000, (START * 1_000 + phase - 5_000) / 1_000);
    let twice = dashboard.stored.iter().find(|(_, (_, times))| *times != 1);
    assert_eq!(twice, None, "seed {seed}");
    let stored: HashMap<_, _> = dashboard.stored.into_iter().map(|(key, it)| (key, it.0)).collect();
    let differing: Vec<_> =
        expected.iter().filter(|(key, it)| stored.get(*key) != Some(it)).collect();
    assert!(differing.is_empty(), "seed {seed}: {differing:?}");
    assert_eq!(stored.len(), expected.len(), "seed {seed}");

    let all = service.registry.lifetime();
    let sum = |index: usize| stored.values().map(|it| it[index]).sum::<u64>();
    let completed = all.sum(Success) + all.sum(Exception) + all.sum(Cancelled);
    let of_registry = [all.sum(Pass), all.sum(Block), completed, all.sum(Exception)];
    assert_eq!([sum(0), sum(1), sum(2), sum(3)], of_registry, "seed {seed}");
    assert!(of_registry.iter().all(|&it| it > 100), "{of_registry:?}");
}

#[tokio::test]
async fn each_second_of_ten_minutes_is_stored_once_to_the_unit() {
    for seed in 0..8 {
        ten_minutes(seed).await;
    }
}
