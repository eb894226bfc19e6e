//! The number of instructions of a decision by rules, and of the same limiters by hand.
//! `.ci/instructions` runs this bench under callgrind.
//!
//! The limiters by hand have names, so that a refusal names the one that has refused, as rules do.
//! `…_that_can_change` are limiters by hand that another thread can replace as a whole while
//! requests are decided, as it can replace rules.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;

use arc_swap::ArcSwap;
use leaparray::flow::{
    AllOf, Ask, ConcurrencyLimiter, Keyed, Limiter, LimiterExt, Rate, TokenBucket,
};
use leaparray::{ManualClock, Outcome, Registry, RegistryConfig, Resource};
use leaparray_instructions::{NOW, Operation, PLENTY};
use leaparray_rules::{RuleSet, Rules};

const OPERATIONS: [Operation; 16] = [
    ("bucket_by_hand", bucket_by_hand),
    ("bucket_that_can_change", bucket_that_can_change),
    ("bucket_by_rules", bucket_by_rules),
    ("bucket_by_10000_rules", bucket_by_10000_rules),
    ("in_flight_by_hand", in_flight_by_hand),
    ("in_flight_that_can_change", in_flight_that_can_change),
    ("in_flight_by_rules", in_flight_by_rules),
    ("keyed_by_hand", keyed_by_hand),
    ("keyed_that_can_change", keyed_that_can_change),
    ("keyed_by_rules", keyed_by_rules),
    ("three_by_hand", three_by_hand),
    ("three_that_can_change", three_that_can_change),
    ("three_by_rules", three_by_rules),
    ("enter_by_hand", enter_by_hand),
    ("enter_that_can_change", enter_that_can_change),
    ("enter_by_rules", enter_by_rules),
];

const BUCKET: &str = "limit = \"1000000000 per second, bursts of 1000000000\"";
const IN_FLIGHT: &str = "in_flight = 1000000000";
const KEYED: &str = "key = \"client\"\nlimit = \"1000000000 per second, bursts of 1000000000\"";

type Clock = ManualClock;

fn bucket() -> TokenBucket<Clock> {
    let rate = Rate::per_second(PLENTY).expect("not zero");
    TokenBucket::with_clock(rate, PLENTY, ManualClock::new(NOW))
}

fn in_flight() -> Arc<ConcurrencyLimiter> {
    Arc::new(ConcurrencyLimiter::new(PLENTY))
}

fn keyed() -> Keyed<String, TokenBucket<Clock>> {
    Keyed::new(bucket(), 100_000).expect("room for the keys").with_overflow()
}

fn registry() -> Arc<Registry<Clock>> {
    Arc::new(Registry::with_clock(RegistryConfig::default(), ManualClock::new(NOW)))
}

fn orders(registry: &Registry<Clock>) -> Resource<Clock> {
    registry.resource("orders").expect("room for the first resource")
}

/// Creates rules for the resource `orders`, and `others` for other resources.
fn rules(limits: &[&str], others: usize) -> (Rules<Clock>, Resource<Clock>) {
    let mut text = String::new();
    for (place, limit) in limits.iter().enumerate() {
        writeln!(text, "[[rule]]\nname = \"r{place}\"\nresource = \"orders\"\n{limit}").unwrap();
    }
    for place in 0..others {
        writeln!(text, "[[rule]]\nname = \"o{place}\"\nresource = \"o{place}\"\n{BUCKET}").unwrap();
    }
    let rules = Rules::new(registry());
    rules.apply(&RuleSet::parse(&text).expect("good rules"));
    let orders = orders(rules.registry());
    (rules, orders)
}

fn repeat<R>(times: u64, op: impl Fn() -> R) {
    for _ in 0..times {
        // By reference: a value would be moved there and back.
        black_box(&op());
    }
}

fn by_hand(times: u64, limiter: impl Limiter) {
    repeat(times, || limiter.ask(&Ask::at(black_box(NOW))));
}

fn that_can_change(times: u64, limiter: impl Limiter) {
    let limiter = ArcSwap::from_pointee(limiter);
    let limiter = black_box(&limiter);
    repeat(times, || limiter.load().ask(&Ask::at(black_box(NOW))));
}

fn by_rules(times: u64, limits: &[&str], others: usize) {
    let (rules, orders) = rules(limits, others);
    repeat(times, || rules.ask(&orders, &"10.0.0.7", &Ask::at(black_box(NOW))));
}

fn bucket_by_hand(times: u64) {
    by_hand(times, bucket().named("r0"));
}

fn bucket_that_can_change(times: u64) {
    that_can_change(times, bucket().named("r0"));
}

fn bucket_by_rules(times: u64) {
    by_rules(times, &[BUCKET], 0);
}

fn bucket_by_10000_rules(times: u64) {
    by_rules(times, &[BUCKET], 9_999);
}

fn in_flight_by_hand(times: u64) {
    by_hand(times, in_flight().named("r0"));
}

fn in_flight_that_can_change(times: u64) {
    that_can_change(times, in_flight().named("r0"));
}

fn in_flight_by_rules(times: u64) {
    by_rules(times, &[IN_FLIGHT], 0);
}

fn keyed_by_hand(times: u64) {
    let (keyed, name) = (keyed(), in_flight().named("r0"));
    repeat(times, || name.over(keyed.of_key("10.0.0.7")).ask(&Ask::at(black_box(NOW))));
}

fn keyed_that_can_change(times: u64) {
    let limits = ArcSwap::from_pointee((keyed(), in_flight().named("r0")));
    let limits = black_box(&limits);
    repeat(times, || {
        let limits = limits.load();
        let (keyed, name) = &**limits;
        name.over(keyed.of_key("10.0.0.7")).ask(&Ask::at(black_box(NOW)))
    });
}

fn keyed_by_rules(times: u64) {
    by_rules(times, &[KEYED], 0);
}

fn three_by_hand(times: u64) {
    let (bucket, in_flight, keyed) = (bucket().named("r0"), in_flight().named("r1"), keyed());
    let name = self::bucket().named("r2");
    repeat(times, || {
        let keyed = name.over(keyed.of_key("10.0.0.7"));
        AllOf::new((&bucket, &in_flight, keyed)).ask(&Ask::at(black_box(NOW)))
    });
}

fn three_that_can_change(times: u64) {
    let limits = (bucket().named("r0"), in_flight().named("r1"), keyed(), bucket().named("r2"));
    let limits = ArcSwap::from_pointee(limits);
    let limits = black_box(&limits);
    repeat(times, || {
        let limits = limits.load();
        let (bucket, in_flight, keyed, name) = &**limits;
        let keyed = name.over(keyed.of_key("10.0.0.7"));
        AllOf::new((bucket, in_flight, keyed)).ask(&Ask::at(black_box(NOW)))
    });
}

fn three_by_rules(times: u64) {
    by_rules(times, &[BUCKET, IN_FLIGHT, KEYED], 0);
}

fn enter_by_hand(times: u64) {
    let registry = registry();
    let (orders, bucket) = (orders(&registry), bucket().named("r0"));
    repeat(times, || {
        let entry = bucket.try_enter_at(orders.clone(), Ask::at(black_box(NOW))).expect("plenty");
        entry.end_at(black_box(NOW), Outcome::Success);
    });
}

fn enter_that_can_change(times: u64) {
    let registry = registry();
    let orders = orders(&registry);
    let bucket = ArcSwap::from_pointee(bucket().named("r0"));
    let bucket = black_box(&bucket);
    repeat(times, || {
        let ask = Ask::at(black_box(NOW));
        let entry = bucket.load().try_enter_at(orders.clone(), ask).expect("plenty");
        entry.end_at(black_box(NOW), Outcome::Success);
    });
}

fn enter_by_rules(times: u64) {
    let (rules, orders) = rules(&[BUCKET], 0);
    repeat(times, || {
        let entry = rules.try_enter_at(orders.clone(), &"10.0.0.7", Ask::at(black_box(NOW)));
        entry.expect("plenty").end_at(black_box(NOW), Outcome::Success);
    });
}

fn main() {
    leaparray_instructions::main(&OPERATIONS);
}
