//! Random histories, against a plain reckoning: one bucket after the other, and no closed forms.

use std::collections::BTreeMap;
use std::time::Duration;

use leaparray::WindowConfig;
use leaparray::flow::{LimiterExt, Retry, WarmUpConfig};
use proptest::prelude::*;

use super::Service;

/// In buckets: sums that are exactly zero may come out as far from it.
const ROUNDING: f64 = 1e-9;

/// A request: the buckets since the request before, and its permits.
#[derive(Clone, Debug)]
struct Ask {
    after: u64,
    permits: u64,
}

#[derive(Clone, Debug)]
struct Case {
    buckets: usize,
    limit: u64,
    /// In a hundredth of a bucket.
    period: u32,
    cold_factor: f64,
    asks: Vec<Ask>,
}

/// The state of the service at the start of a bucket, and the permits of each bucket.
#[derive(Clone, Debug)]
struct Reckoning {
    samples: u64,
    limit: u64,
    cold_factor: f64,
    /// The permits of a warm service in a bucket, and the tokens above the warning line.
    rate: f64,
    tokens: f64,
    bucket: u64,
    coldness: f64,
    balance: f64,
    taken: BTreeMap<u64, u64>,
    refused: Option<u64>,
}

#[expect(clippy::cast_precision_loss, reason = "small")]
impl Reckoning {
    fn new(case: &Case) -> Self {
        let rate = case.limit as f64 / case.buckets as f64;
        let period = f64::from(case.period) / 100.0;
        Self {
            samples: case.buckets as u64,
            limit: case.limit,
            cold_factor: case.cold_factor,
            rate,
            tokens: 2.0 * rate * period / (1.0 + case.cold_factor),
            bucket: 0,
            coldness: 1.0,
            balance: 0.0,
            taken: BTreeMap::new(),
            refused: None,
        }
    }

    fn own(&self) -> u64 {
        self.taken.get(&self.bucket).copied().unwrap_or(0)
    }

    fn of_window(&self) -> u64 {
        let first = (self.bucket + 1).saturating_sub(self.samples);
        self.taken.range(first..=self.bucket).map(|(_, permits)| permits).sum()
    }

    /// The time that permits take: the slowness of each part of a permit, added up.
    fn cost(&self, permits: u64) -> f64 {
        const PARTS: u32 = 64;
        let cold = (self.tokens * self.coldness).min(permits as f64);
        let part = cold / f64::from(PARTS);
        let slowness = |part_number: u32| {
            let taken = (f64::from(part_number) + 0.5) * part;
            1.0 + (self.cold_factor - 1.0) * (self.coldness - taken / self.tokens)
        };
        let cold_time: f64 = (0..PARTS).map(|number| slowness(number) * part / self.rate).sum();
        cold_time + (permits as f64 - cold) / self.rate
    }

    fn end_bucket(&mut self) {
        let own = self.own();
        let balance = (self.balance + 1.0 - self.cost(own)).min(self.samples as f64 - 1.0);
        let is_demand = self.refused.is_some_and(|refused| self.bucket < refused + self.samples);
        let is_quiet = (self.of_window() as f64) < self.limit as f64 / self.cold_factor;
        let is_paid = self.balance > -ROUNDING && balance > -ROUNDING;
        self.coldness = (self.coldness - own as f64 / self.tokens).max(0.0);
        if is_quiet && is_paid && !is_demand {
            self.coldness = (self.coldness + self.rate / self.tokens).min(1.0);
        }
        // A service that has not taken any permit has no credit.
        self.balance = if self.taken.is_empty() { 0.0 } else { balance };
        self.bucket += 1;
    }

    fn go_to(&mut self, bucket: u64) {
        while self.bucket < bucket {
            self.end_bucket();
        }
    }

    fn admits(&self, permits: u64) -> bool {
        self.of_window() + permits <= self.limit
            && self.balance + 1.0 - self.cost(self.own()) > ROUNDING
    }

    fn ask(&mut self, permits: u64) -> bool {
        let admits = self.admits(permits);
        if admits {
            *self.taken.entry(self.bucket).or_default() += permits;
        } else if permits <= self.limit {
            self.refused = Some(self.bucket);
        }
        admits
    }

    /// The bucket in which a refused request is admitted, if no other request asks.
    fn retry(&self, permits: u64) -> u64 {
        let mut later = self.clone();
        while !later.admits(permits) {
            later.end_bucket();
        }
        later.bucket
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let limit = prop_oneof![1_u64..=4, 5_u64..=300, 1_000_u64..=1_000_000];
    let cold_factor = prop_oneof![Just(1.01), Just(1.5), Just(3.0), Just(10.0), 1.01..100.0];
    let period = prop_oneof![1_u32..=300, 300_u32..=40_000];
    (1_usize..=20, limit, period, cold_factor).prop_flat_map(
        |(buckets, limit, period, cold_factor)| {
            let permits = prop_oneof![
                4 => Just(1),
                4 => 1..=(limit / 8).max(1),
                2 => 1..=limit,
                1 => Just(limit),
                1 => Just(limit + 1),
            ];
            let after =
                prop_oneof![6 => Just(0), 6 => 1_u64..=2, 2 => 1_u64..=40, 1 => 1_u64..=500];
            let ask = (after, permits).prop_map(|(after, permits)| Ask { after, permits });
            prop::collection::vec(ask, 1..120).prop_map(move |asks| Case {
                buckets,
                limit,
                period,
                cold_factor,
                asks,
            })
        },
    )
}

fn service(case: &Case) -> Service {
    let len = Duration::from_millis(10);
    let window = WindowConfig::new(case.buckets, len * u32::try_from(case.buckets).unwrap());
    let config = WarmUpConfig::new(len * case.period / 100, case.cold_factor).unwrap();
    Service::new(window.unwrap(), case.limit, config)
}

/// Each decision and each time to retry agree with the reckoning. A peek equals the decision.
fn assert_agreement(case: &Case) -> Result<(), TestCaseError> {
    let (service, mut reckoning) = (service(case), Reckoning::new(case));
    let mut bucket = 0;
    for ask in &case.asks {
        bucket += ask.after;
        reckoning.go_to(bucket);
        let now = service.start(bucket);
        let peeked = service.limiter.peek_at(now, ask.permits);
        let decision = service.ask(bucket, ask.permits);
        prop_assert_eq!(peeked, Some(decision));
        let expected = reckoning.ask(ask.permits);
        prop_assert_eq!(decision.is_admitted(), expected, "bucket {}, {:?}", bucket, ask);
        if ask.permits > case.limit {
            prop_assert_eq!(decision.refusal().unwrap().retry(), Retry::Never);
        } else if !expected {
            let retry = service.retry(decision);
            prop_assert_eq!(retry, reckoning.retry(ask.permits), "bucket {}, {:?}", bucket, ask);
            let decided = [retry - 1, retry]
                .map(|bucket| service.limiter.peek_at(service.start(bucket), ask.permits).unwrap());
            prop_assert_eq!(decided.map(|decision| decision.is_admitted()), [false, true]);
        }
        let (available, limit) = (service.available(bucket), service.current_limit(bucket));
        prop_assert!((1..=case.limit).contains(&limit));
        prop_assert_eq!(available > 0, reckoning.admits(1));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn decisions_are_those_of_the_reckoning(case in cases()) {
        assert_agreement(&case)?;
    }

    /// As many single permits as are available are admitted, and not one more.
    #[test]
    fn available_permits_are_admitted(case in cases()) {
        let service = service(&case);
        let mut bucket = 0;
        for ask in case.asks.iter().filter(|_| case.limit <= 300) {
            bucket += ask.after;
            let available = service.available(bucket);
            if ask.permits % 3 == 0 {
                prop_assert_eq!(service.take_all(bucket, 1), available);
                prop_assert_eq!(service.available(bucket), 0);
            } else {
                let _ = service.ask(bucket, ask.permits);
            }
        }
    }
}

/// The permits of buckets 0 and 2 take as long as buckets 0 to 2, 2.8 + 0.2. Nothing is owed then,
/// so the service cools in bucket 3.
#[test]
fn service_cools_once_its_time_is_paid() {
    let asks = [(0, 5), (1, 1), (1, 1), (2, 1)];
    let asks = asks.map(|(after, permits)| Ask { after, permits }).to_vec();
    let case = Case { buckets: 1, limit: 5, period: 220, cold_factor: 10.0, asks };
    assert_agreement(&case).unwrap();
}
