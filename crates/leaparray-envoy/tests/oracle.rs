//! Properties of all requests, in any order and from several threads.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leaparray::{Clock, ManualClock, Timestamp};
use leaparray_envoy::config::Config;
use leaparray_envoy::service::{Descriptor, Request, Service, Settings, Store};
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
