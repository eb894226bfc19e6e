//! A rule decides as the same limiter by hand.

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::adaptive::{AdaptiveLimiter, Headroom, LimitRange};
use leaparray::flow::{
    AllOf, Ask, BoxLimiter, CircuitBreaker, CircuitConfig, ConcurrencyLimiter, Decision, Keyed,
    LeakyBucket, LimiterExt, Rate, SlidingWindowLimiter, TokenBucket, WarmUp, WarmUpConfig,
};
use leaparray::{
    ManualClock, Outcome, Permit, Registry, RegistryConfig, Resource, Timestamp, WindowConfig,
};
use leaparray_rules::{RuleSet, Rules};
use proptest::prelude::*;

struct Subject {
    clock: ManualClock,
    rules: Rules<ManualClock>,
    resource: Resource<ManualClock>,
}

fn subject(limiters: &[&str]) -> Subject {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock.clone()));
    let tables = limiters.iter().enumerate().map(|(index, limiter)| {
        format!("[[rule]]\nname = \"rule-{index}\"\nresource = \"GET *\"\n{limiter}\n")
    });
    let rules = Rules::new(Arc::clone(&registry));
    rules.apply(&RuleSet::parse(&tables.collect::<String>()).unwrap());
    Subject { clock, rules, resource: registry.resource("GET /orders").unwrap() }
}

/// A step of a trace: the time since the step before, the permits, and how the oldest request in
/// flight ends, if it does.
type Step = (u64, u64, Option<u8>);

fn trace() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop::option::of(0_u8..3);
    prop::collection::vec((0_u64..400, 1_u64..4, outcome), 1..150)
}

const OUTCOMES: [Outcome; 3] = [Outcome::Success, Outcome::Exception, Outcome::Cancelled];

/// What a caller sees of a decision: the refusal's reason and time, or the wait.
fn seen<P>(decision: &Decision<P>) -> String {
    match decision.refusal() {
        Some(refusal) => format!("{:?} {:?}", refusal.reason, refusal.retry()),
        None => format!("{:?}", decision.wait()),
    }
}

/// Plays a trace to rules and to the same limiter by hand.
fn play(subject: &Subject, hand: &BoxLimiter, trace: &[Step]) -> Result<(), TestCaseError> {
    let Subject { clock, rules, resource } = subject;
    let mut in_flight: Vec<(Box<dyn Permit>, Box<dyn Permit>)> = Vec::new();
    for (step, &(millis, permits, ends)) in trace.iter().enumerate() {
        clock.advance(Duration::from_millis(millis));
        let now = leaparray::Clock::now(clock);
        if let (Some(outcome), false) = (ends, in_flight.is_empty()) {
            let (mut rule, mut other) = in_flight.remove(0);
            rule.end_at(now, OUTCOMES[usize::from(outcome)]);
            other.end_at(now, OUTCOMES[usize::from(outcome)]);
        }
        let ask = Ask::at(now).many(permits);
        let limiter = rules.limiter(resource, &"key");
        // In both ways in turn: they have code of their own.
        let is_limiter = step % 2 == 0;
        let rule = if is_limiter { limiter.ask(&ask) } else { rules.ask(resource, &"key", &ask) };
        let other = hand.ask(&ask);
        prop_assert_eq!(seen(&rule), seen(&other));
        prop_assert_eq!(
            limiter.quota_at(now).map(|it| (it.limit, it.remaining, it.reset)),
            hand.quota_at(now).map(|it| (it.limit, it.remaining, it.reset))
        );
        if let (Ok(rule), Ok(other)) = (rule.into_result(), other.into_result()) {
            in_flight.push((Box::new(rule.into_parts().0), Box::new(other.into_parts().0)));
        }
    }
    Ok(())
}

const SECOND: Duration = Duration::from_secs(1);

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn window_decides_as_by_hand(trace in trace()) {
        let subject = subject(&["limit = \"5 per second\""]);
        let hand = SlidingWindowLimiter::with_clock(SECOND, 5, subject.clock.clone()).unwrap();
        play(&subject, &hand.boxed(), &trace)?;
    }

    #[test]
    fn window_of_buckets_decides_as_by_hand(trace in trace()) {
        let subject = subject(&["limit = \"5 per second\"\nbuckets = 2"]);
        let config = WindowConfig::new(2, SECOND).unwrap();
        let hand =
            SlidingWindowLimiter::of_buckets_with_clock(config, 5, subject.clock.clone()).unwrap();
        play(&subject, &hand.boxed(), &trace)?;
    }

    #[test]
    fn bucket_decides_as_by_hand(trace in trace()) {
        let subject = subject(&["limit = \"6 per 2s, bursts of 4\""]);
        let rate = Rate::new(6, 2 * SECOND).unwrap();
        let hand = TokenBucket::with_clock(rate, 4, subject.clock.clone());
        play(&subject, &hand.boxed(), &trace)?;
    }

    #[test]
    fn pace_decides_as_by_hand(trace in trace()) {
        let subject = subject(&["pace = \"10 per second\"\nmax_wait = \"500ms\""]);
        let rate = Rate::per_second(10).unwrap();
        let hand = LeakyBucket::with_clock(rate, SECOND / 2, subject.clock.clone());
        play(&subject, &hand.boxed(), &trace)?;
    }

    #[test]
    fn warm_up_decides_as_by_hand(trace in trace()) {
        let subject = subject(&["limit = \"30 per second\"\nwarm_up = \"5s\"\ncold_factor = 5"]);
        let (window, config) =
            (WindowConfig::new(10, SECOND).unwrap(), WarmUpConfig::new(5 * SECOND, 5.0).unwrap());
        let hand = WarmUp::with_clock(window, 30, config, subject.clock.clone()).unwrap();
        play(&subject, &hand.boxed(), &trace)?;
    }

    #[test]
    fn limits_in_flight_decide_as_by_hand(trace in trace()) {
        let fixed = subject(&["in_flight = 7"]);
        play(&fixed, &ConcurrencyLimiter::new(7).boxed(), &trace)?;
        let adaptive = subject(&["in_flight = { min = 2, first = 6, max = 30 }"]);
        let headroom = Headroom::new(LimitRange::new(2, 6, 30).unwrap());
        let hand = AdaptiveLimiter::with_clock(headroom, adaptive.clock.clone());
        play(&adaptive, &hand.boxed(), &trace)?;
    }

    #[test]
    fn breaker_decides_as_by_hand(trace in trace()) {
        let subject = subject(&["breaker = { failures = \"50 % of 4\", wait = \"2s\", probes = 1 }"]);
        let config = CircuitConfig::default().min_calls(4).probes(1).unwrap();
        let config = config.wait(leaparray::flow::circuit::Wait::new(2 * SECOND));
        let hand = CircuitBreaker::with_clock(config, subject.clock.clone());
        play(&subject, &hand.boxed(), &trace)?;
    }

    #[test]
    fn rules_of_one_resource_decide_as_a_combination(trace in trace(), rules in 2_usize..6) {
        let all = [
            "limit = \"5 per second\"",
            "in_flight = 9",
            "limit = \"20 per 10s, bursts of 8\"",
            "breaker = { failures = \"3 in a row\" }",
            "pace = \"10 per second\"\nmax_wait = \"500ms\"",
        ];
        let subject = subject(&all[..rules]);
        let clock = || subject.clock.clone();
        let rate = Rate::new(20, 10 * SECOND).unwrap();
        let config = CircuitConfig::default().no_exception_ratio().consecutive_exceptions(3);
        let mut hand = vec![
            SlidingWindowLimiter::with_clock(SECOND, 5, clock()).unwrap().boxed(),
            ConcurrencyLimiter::new(9).boxed(),
            TokenBucket::with_clock(rate, 8, clock()).boxed(),
            CircuitBreaker::with_clock(config, clock()).boxed(),
            LeakyBucket::with_clock(Rate::per_second(10).unwrap(), SECOND / 2, clock()).boxed(),
        ];
        hand.truncate(rules);
        play(&subject, &AllOf::new(hand).boxed(), &trace)?;
    }

    #[test]
    fn key_decides_as_by_hand(trace in trace()) {
        let subject = subject(&["key = \"client\"\nlimit = \"6 per 2s, bursts of 4\""]);
        let bucket = TokenBucket::with_clock(Rate::new(6, 2 * SECOND).unwrap(), 4, subject.clock.clone());
        let keys = Arc::new(Keyed::<String, _>::new(bucket, 100).unwrap());
        let hand = leaparray::flow::keyed::OfKey::new(keys, Box::new("other".to_owned()));
        play(&subject, &hand.boxed(), &trace)?;
    }

    #[test]
    fn key_of_any_limiter_decides_as_by_hand(trace in trace()) {
        let subject = subject(&["key = \"resource\"\nlimit = \"5 per second\""]);
        let hand = SlidingWindowLimiter::with_clock(SECOND, 5, subject.clock.clone()).unwrap();
        play(&subject, &hand.boxed(), &trace)?;
    }
}
