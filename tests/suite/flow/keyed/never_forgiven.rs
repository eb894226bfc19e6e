//! An evicted key that comes back gets no more than it would have had: against limiters that evict
//! nothing.

use std::collections::HashMap;
use std::time::Duration;

use leaparray::Timestamp;
use leaparray::flow::{
    Decision, FixedWindowLimiter, LeakyBucket, LimiterExt, Rate, Reason, TokenBucket,
};
use proptest::prelude::*;

use super::keyed;
use crate::flow::{at, ms, rate};

#[derive(Clone, Debug)]
enum Step {
    /// A request of a key, so many milliseconds before the newest time.
    Ask { key: u64, stale: u64, permits: u64 },
    /// Time passes.
    Pass(u64),
    /// Keys are examined.
    Evict(usize),
}

fn step(stalest: u64) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_u64, 0..=stalest, 0..4_u64)
            .prop_map(|(key, stale, permits)| Step::Ask { key, stale, permits }),
        3 => (0..400_u64).prop_map(Step::Pass),
        2 => (1..8_usize).prop_map(Step::Evict),
    ]
}

fn steps(stalest: u64) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(stalest), 1..200)
}

/// The rates of the tests: one with a whole number of nanoseconds for a permit, and one without.
fn any_rate() -> impl Strategy<Value = Rate> {
    prop_oneof![Just(rate(1, 100)), Just(rate(3, 250))]
}

/// Runs the steps, and calls `decided` with each decision, its key, its time and its permits.
macro_rules! run {
    ($limiter:expr, $steps:expr, $decided:expr) => {{
        let (mut newest, mut decided) = (60_000, $decided);
        for step in $steps {
            run_step!($limiter, step, newest, decided);
        }
    }};
}

/// Runs a step. `newest` is the newest time so far, in milliseconds.
macro_rules! run_step {
    ($limiter:expr, $step:expr, $newest:expr, $decided:expr) => {
        match *$step {
            Step::Ask { key, stale, permits } => {
                let now = at($newest - stale);
                ($decided)($limiter.try_acquire_at(&key, now, permits), key, now, permits);
            }
            Step::Pass(millis) => $newest += millis,
            Step::Evict(count) => {
                $limiter.evict_at(at($newest), count);
            }
        }
    };
}

/// A limiter without keys for each key.
fn reference<L>(make: impl Fn() -> L) -> impl FnMut(u64, &mut dyn FnMut(&L)) {
    let mut limiters: HashMap<u64, L> = HashMap::new();
    move |key, ask| ask(limiters.entry(key).or_insert_with(&make))
}

proptest! {
    /// With times that never go back, no decision differs, whatever is evicted, and whenever.
    #[test]
    fn token_bucket_decides_as_one_that_is_never_evicted(
        rate in any_rate(),
        steps in steps(0),
        keep in 0..300_u64,
        max_keys in 4..8_usize,
    ) {
        let limiter = keyed!(TokenBucket::new(rate, 3), max_keys, ms(keep));
        let make = || TokenBucket::new(rate, 3).with_max_lead(Duration::MAX);
        let mut of = reference(make);
        run!(limiter, &steps, |decision: Decision, key, now, permits| {
            if decision.refusal().is_none_or(|refusal| refusal.reason != Reason::NO_ROOM_FOR_KEY) {
                of(key, &mut |bucket| assert_eq!(decision, bucket.try_acquire_at(now, permits)));
            }
        });
    }

    /// Also with stale times: a bucket that is asked for nothing but the admitted requests admits
    /// them all.
    #[test]
    fn token_bucket_admits_nothing_that_one_without_eviction_would_not(
        rate in any_rate(),
        steps in steps(900),
        keep in 0..300_u64,
    ) {
        let limiter = keyed!(TokenBucket::new(rate, 3), 100, ms(keep));
        let mut of = reference(|| TokenBucket::new(rate, 3).with_max_lead(Duration::MAX));
        run!(limiter, &steps, |decision: Decision, key, now, permits| {
            if decision.is_admitted() {
                of(key, &mut |bucket| {
                    assert!(bucket.try_acquire_at(now, permits).is_admitted());
                });
            }
        });
    }

    #[test]
    fn leaky_bucket_decides_as_one_that_is_never_evicted(
        rate in any_rate(),
        steps in steps(900),
        keep in 0..300_u64,
        max_wait in 0..300_u64,
    ) {
        let limiter = keyed!(LeakyBucket::new(rate, ms(max_wait)), 100, ms(keep));
        let make = || LeakyBucket::new(rate, ms(max_wait)).with_max_lead(Duration::MAX);
        let mut of = reference(make);
        run!(limiter, &steps, |decision: Decision, key, now, permits| {
            if let Ok(delayed) = decision.into_result() {
                of(key, &mut |bucket| {
                    let wait = bucket.try_acquire_at(now, permits).into_result();
                    assert!(wait.is_ok_and(|other| other.wait() <= delayed.wait()));
                });
            }
        });
    }

    #[test]
    fn fixed_window_decides_as_one_that_is_never_evicted(
        steps in steps(0),
        keep in 0..300_u64,
    ) {
        let limiter = keyed!(FixedWindowLimiter::new(ms(500), 4).unwrap(), 100, ms(keep));
        let make = || {
            FixedWindowLimiter::new(ms(500), 4).unwrap().with_max_lead(Duration::MAX)
        };
        let mut of = reference(make);
        run!(limiter, &steps, |decision: Decision, key, now, permits| {
            of(key, &mut |window| assert_eq!(decision, window.try_acquire_at(now, permits)));
        });
    }

    /// Also with stale times. Each request counts in the interval of its time or in a later one, up
    /// to that of the newest time. So the requests that can count in no other intervals than some
    /// have no more permits than these.
    #[test]
    fn fixed_window_with_stale_times_admits_no_more_than_its_intervals(
        steps in steps(900),
        keep in 0..300_u64,
    ) {
        let limiter = keyed!(FixedWindowLimiter::new(ms(500), 4).unwrap(), 100, ms(keep));
        // Of each of two keys: the first and the last interval in which a request can count, and
        // its permits.
        let mut admitted = [const { Vec::new() }; 2];
        let mut newest = 60_000;
        for step in steps {
            // Few keys and short pauses, so that limits are reached.
            let step = match step {
                Step::Ask { key, stale, permits } => Step::Ask { key: key % 2, stale, permits },
                Step::Pass(millis) => Step::Pass(millis / 2),
                step @ Step::Evict(_) => step,
            };
            run_step!(limiter, &step, newest, |decision: Decision, key, now: Timestamp, permits| {
                if decision.is_admitted() {
                    let first = now.as_nanos() / 500_000_000;
                    admitted[usize::try_from(key).unwrap()].push((first, permits, 0));
                }
            });
            for admitted in &mut admitted {
                for request in admitted.iter_mut().filter(|(.., last)| *last == 0) {
                    request.2 = newest / 500;
                }
            }
        }
        for admitted in admitted {
            for &(from, ..) in &admitted {
                for &(.., to) in &admitted {
                    let within = admitted.iter().filter(|&&(first, _, last)| first >= from && last <= to);
                    let permits: u64 = within.map(|&(_, permits, _)| permits).sum();
                    assert!(permits <= 4 * (to + 1).saturating_sub(from), "{permits} from {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn limiter_of_its_own_decides_as_one_that_is_never_evicted(
        rate in any_rate(),
        steps in steps(0),
        keep in 0..300_u64,
    ) {
        let make = move || TokenBucket::new(rate, 3).with_max_lead(Duration::MAX);
        let limiter = keyed!(make, 100, ms(keep));
        let mut of = reference(make);
        run!(limiter, &steps, |decision: Decision, key, now, permits| {
            of(key, &mut |bucket| assert_eq!(decision, bucket.try_acquire_at(now, permits)));
        });
    }
}

#[test]
fn stale_request_of_an_evicted_key_finds_the_tokens_of_its_time() {
    let limiter = keyed!(TokenBucket::new(rate(1, 100), 5), 10, Duration::ZERO);
    assert!(limiter.try_acquire_at(&1, at(60_000), 5).is_admitted());
    assert_eq!(limiter.evict_at(at(60_499), 10), 0, "not full before 60.5 s");
    assert_eq!(limiter.evict_at(at(60_500), 10), 1);
    // The request has read its clock before, and its thread was stopped since.
    let refusal = limiter.try_acquire_at(&1, at(60_000), 1).refusal().unwrap();
    assert_eq!(refusal.retry_at(), Some(at(60_100)));
    assert!(limiter.try_acquire_at(&1, at(60_100), 1).is_admitted());
    assert!(limiter.try_acquire_at(&1, at(60_500), 5).is_refused(), "it has only four more");
}

#[test]
fn stale_request_of_an_evicted_window_counts_in_the_newest_one() {
    let limiter = keyed!(FixedWindowLimiter::new(ms(1_000), 5).unwrap(), 10, Duration::ZERO);
    assert!(limiter.try_acquire_at(&1, at(60_000), 5).is_admitted());
    assert_eq!([60_999, 61_000].map(|now| limiter.evict_at(at(now), 10)), [0, 1]);
    assert!(limiter.try_acquire_at(&1, at(60_000), 2).is_admitted(), "decided in second 61");
    assert!(limiter.try_acquire_at(&1, at(61_000), 4).is_refused());
}

#[test]
fn request_that_takes_nothing_stores_no_key() {
    let limiter = keyed!(TokenBucket::new(rate(1, 100), 5), 10, ms(0));
    assert!(limiter.try_acquire_at(&1, at(60_000), 0).is_admitted());
    assert!(limiter.try_acquire_at(&1, at(60_000), 6).is_refused());
    assert!(limiter.is_empty());
    assert_eq!(limiter.counts().unstored_refusals, 1);
}
