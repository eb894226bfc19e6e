//! Properties of all requests, in any order and from several threads.

use std::fmt::Write;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leaparray::{Clock, ManualClock, Timestamp};
use leaparray_envoy::config::{Config, Unit};
use leaparray_envoy::service::{Charging, Descriptor, Fallback, Request, Service, Settings, Store};
use proptest::prelude::*;

/// Limits of 3 paths, of each user, and of both together.
const YAML: &str = "
domain: d
descriptors:
  - { key: path, value: a, rate_limit: { unit: second, requests_per_unit: 5 } }
  - { key: path, value: b, rate_limit: { unit: second, requests_per_unit: 9 } }
  - { key: user, rate_limit: { unit: second, requests_per_unit: 4 } }
  - key: user
    value: vip*
    share_threshold: true
    descriptors:
      - { key: path, rate_limit: { unit: minute, requests_per_unit: 20 } }
";

/// The limits: the number of requests, and the interval.
const LIMITS: [(u64, u64); 5] = [(5, 1_000), (9, 1_000), (4, 1_000), (4, 1_000), (20, 60_000)];

fn descriptor(limit: usize) -> Descriptor {
    match limit {
        0 => Descriptor::new([("path", "a")]),
        1 => Descriptor::new([("path", "b")]),
        2 => Descriptor::new([("user", "ann")]),
        3 => Descriptor::new([("user", "bob")]),
        _ => Descriptor::new([("user", "vip1"), ("path", "any")]),
    }
}

fn service(clock: ManualClock) -> Service<ManualClock> {
    let config = Config::from_yaml(YAML).unwrap();
    Service::with_settings(&config, &Store::Memory, Settings::default(), clock)
}

/// A request: milliseconds since the one before, the hits, and the limits that it names.
type Step = (u64, u64, Vec<usize>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let limits = prop::collection::vec(0..LIMITS.len(), 1..4);
    prop::collection::vec((0..400_u64, 0..4_u64, limits), 1..120)
}

/// The charges of a limit: times in milliseconds, and hits.
type Charged = Vec<(u64, u64)>;

/// Returns the hits in the interval that ends at `now`.
fn sum(charged: &Charged, now: u64, interval: u64) -> u64 {
    charged.iter().filter(|(at, _)| at + interval > now).map(|(_, hits)| hits).sum()
}

proptest! {
    /// No interval has more than its limit. A request is refused only if one of its limits has
    /// less left than the hits, by buckets of a 50th of the interval, and what is refused is
    /// charged to none.
    #[test]
    fn each_interval_has_at_most_its_limit(steps in steps()) {
        let clock = ManualClock::new(Timestamp::from_secs(3_600));
        let service = service(clock.clone());
        let mut charged: [Charged; 5] = Default::default();
        let mut now = 0;
        for (wait, hits, limits) in steps {
            now += wait;
            clock.advance(Duration::from_millis(wait));
            let descriptors = limits.iter().map(|limit| descriptor(*limit).with_hits(hits));
            let decision = service.decide_at(&Request::new("d", descriptors), clock.now());
            let wanted = |limit: usize| {
                limits.iter().filter(|it| **it == limit).count() as u64 * hits
            };
            // A permit is free again up to a 50th of the interval late.
            let is_full = |limit: usize, late: u64| {
                let (most, interval) = LIMITS[limit];
                let used = sum(&charged[limit], now, interval + late * interval / 50);
                used + wanted(limit).max(1) > most
            };
            if decision.over {
                prop_assert!(limits.iter().any(|limit| is_full(*limit, 1)), "refused, but free");
                continue;
            }
            prop_assert!(limits.iter().all(|limit| !is_full(*limit, 0)), "over the limit");
            for (limit, charged) in charged.iter_mut().enumerate() {
                if wanted(limit) > 0 {
                    charged.push((now, wanted(limit)));
                }
            }
        }
    }
}

/// In one bucket, permits are given back in full: so what is left agrees with what was admitted.
#[test]
fn racing_requests_charge_what_they_are_admitted() {
    for round in 0..50 {
        let clock = ManualClock::new(Timestamp::from_secs(3_600 + round));
        let (service, start) = (service(clock.clone()), Barrier::new(4));
        // The two requests name the limits in opposite orders.
        let order = [[0, 1, 2], [2, 1, 0]];
        let admitted: u64 = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let (service, start, clock) = (&service, &start, &clock);
                    scope.spawn(move || {
                        let request = Request::new("d", order[thread % 2].map(descriptor));
                        start.wait();
                        (0..6).filter(|_| !service.decide_at(&request, clock.now()).over).count()
                    })
                })
                .collect();
            threads.into_iter().map(|it| it.join().unwrap() as u64).sum()
        });
        assert!(admitted <= 4, "the smallest limit");
        for (limit, (most, _)) in LIMITS.iter().enumerate().take(3) {
            let peek = Request::new("d", [descriptor(limit).with_hits(0)]);
            let left = service.decide_at(&peek, clock.now()).statuses()[0].remaining;
            assert_eq!(left, most - admitted, "limit {limit}");
        }
    }
}

/// The threads compete for the limit, and this one asks what is left of it while they do.
#[test]
fn request_without_hits_is_told_what_all_threads_have_left() {
    const LIMIT: u64 = 1_000_000;
    let config = Config::from_yaml(&format!(
        "domain: d\ndescriptors:\n- key: a\n  value: v\n  rate_limit: {{ unit: hour, \
         requests_per_unit: {LIMIT} }}\n"
    ));
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let service = Service::with_settings(
        &config.unwrap(),
        &Store::Memory,
        Settings::default(),
        clock.clone(),
    );
    let request = |hits| Request::new("d", [Descriptor::new([("a", "v")]).with_hits(hits)]);
    let left = || service.decide_at(&request(0), clock.now()).statuses()[0].remaining;
    for round in 1..=20 {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        assert!(!service.decide_at(&request(1), clock.now()).over);
                    }
                });
            }
            for _ in 0..200 {
                assert!(left() <= LIMIT - (round - 1) * 2_000);
            }
        });
        assert_eq!(left(), LIMIT - round * 2_000);
    }
}

/// A request with a quota: milliseconds since the one before, how much of it is used, and when: at
/// once, or at the end. Most use all of it: what is charged and not used hides too many uses.
type Granted = (u64, u64, bool);

fn granted() -> impl Strategy<Value = Vec<Granted>> {
    let used = prop_oneof![9 => Just(u64::MAX), 1 => 0..=8_u64];
    prop::collection::vec((0..15_u64, used, any::<bool>()), 100..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The uses of quotas and the requests that were asked for, by the times of their uses.
    #[test]
    fn quotas_that_are_used_late_exceed_no_limit(steps in granted()) {
        const LIMIT: u64 = 20;
        let config = Config::from_yaml(&format!(
            "domain: d\ndescriptors:\n- key: a\n  rate_limit: {{ unit: second, \
             requests_per_unit: {LIMIT}, requests_per_quota: 8 }}\n"
        )).unwrap();
        let mut settings = Settings::default();
        settings.clock_skew = Duration::ZERO;
        let clock = ManualClock::new(Timestamp::from_secs(3_600));
        let service = Service::with_settings(&config, &Store::Memory, settings, clock.clone());
        let request = Request::new("d", [Descriptor::new([("a", "v")])]);
        let (mut uses, mut now) = (Charged::new(), 0);
        for (pause, used, is_late) in steps {
            clock.advance(Duration::from_millis(pause));
            now += pause;
            let decision = service.decide_at(&request, service.now());
            if decision.over {
                continue;
            }
            uses.push((now, 1));
            if let Some(quota) = &decision.statuses()[0].quota {
                let last = u64::try_from(quota.valid_for.as_millis()).unwrap() - 1;
                let rest = used.min(u64::from(quota.requests) - 1);
                uses.push((if is_late { now + last } else { now }, rest));
            }
        }
        for &(end, _) in &uses {
            let within = |at: u64| at <= end && at + 1_000 > end;
            let sum: u64 = uses.iter().filter(|(at, _)| within(*at)).map(|(_, hits)| hits).sum();
            prop_assert!(sum <= LIMIT, "{sum} in the second that ends at {end} ms");
        }
    }
}

/// A descriptor of a configuration: its key, value, limit and flags.
type Drawn = (usize, usize, usize, u8);

fn tree() -> impl Strategy<Value = Vec<Drawn>> {
    prop::collection::vec((0..6_usize, 0..5_usize, 0..6_usize, any::<u8>()), 1..12)
}

fn yaml(tree: &[Drawn]) -> String {
    let mut yaml = String::from("domain: d\ndescriptors:\n");
    let mut known = std::collections::HashSet::new();
    for &(key, value, limit, flags) in tree.iter().filter(|it| known.insert((it.0, it.1))) {
        let value = ["", "x", "y", "x*", "*"][value];
        let limit = [
            "unlimited: true",
            "unit: second, requests_per_unit: 0",
            "unit: second, requests_per_unit: 1",
            "unit: second, requests_per_unit: 4",
            "unit: minute, requests_per_unit: 9",
            "unit: hour, requests_per_unit: 30",
        ][limit];
        let is_shared = value.ends_with('*') && flags & 4 != 0;
        writeln!(
            yaml,
            "- {{ key: k{key}, value: '{value}', shadow_mode: {}, quota_mode: {}, \
             share_threshold: {is_shared}, rate_limit: {{ {limit} }} }}",
            flags & 3 == 1,
            flags & 3 == 2,
        )
        .expect("a text has room");
    }
    yaml
}

/// A request: milliseconds since the one before, the key and the value, the hits, and a limit.
type One = (u64, usize, usize, Option<u64>, Option<u32>);

fn ones() -> impl Strategy<Value = Vec<One>> {
    let hits = prop::option::of(prop_oneof![0..6_u64, Just(u64::MAX)]);
    let limit = prop_oneof![6 => Just(None), 1 => (0..5_u32).prop_map(Some)];
    prop::collection::vec((0..300_u64, 0..7_usize, 0..4_usize, hits, limit), 1..60)
}

proptest! {
    /// A request of one descriptor is decided in a way of its own.
    #[test]
    fn descriptor_is_decided_alone_as_beside_one_without_a_limit(
        tree in tree(), ones in ones(), is_each: bool, is_open: bool, has_room: bool,
    ) {
        let config = Config::from_yaml(&yaml(&tree)).unwrap();
        let clock = ManualClock::new(Timestamp::from_secs(3_600));
        let mut settings = Settings::default();
        // With more than one place, the key that loses its own one depends on hashes.
        settings.max_keys = if has_room { 1_000 } else { 1 };
        if is_each {
            settings.charging = Charging::Each;
        }
        if is_open {
            settings.fallback = Fallback::Open;
        }
        let service =
            || Service::with_settings(&config, &Store::Memory, settings, clock.clone());
        let (alone, beside) = (service(), service());
        for (wait, key, value, hits, limit) in ones {
            clock.advance(Duration::from_millis(wait));
            let value = ["x", "y", "xy", "z"][value];
            let mut one = Descriptor::new([(format!("k{key}"), value)]);
            one.hits = hits;
            if let Some(limit) = limit {
                one = one.with_limit(limit, Unit::Second);
            }
            let none = Descriptor::new([("none", value)]);
            let found = alone.decide_at(&Request::new("d", [one.clone()]), clock.now());
            let other = beside.decide_at(&Request::new("d", [one, none]), clock.now());
            prop_assert_eq!(found.over, other.over);
            prop_assert_eq!(&found.statuses()[0], &other.statuses()[0]);
        }
    }
}
