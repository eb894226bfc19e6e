//! A rule decides as the same limiter by hand.

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::adaptive::{AdaptiveLimiter, Headroom, LimitRange};
use leaparray::flow::keyed::OfKey;
use leaparray::flow::priority::{Classes, LimitInForce, OfClass};
use leaparray::flow::shadow::{Mode, Shadow, Share};
use leaparray::flow::shares::{FairShares, OfTenant};
use leaparray::flow::{
    AllOf, Ask, BoxLimiter, CircuitBreaker, CircuitConfig, ConcurrencyLimiter, Decision, Keyed,
    LeakyBucket, Limiter, LimiterExt, Quota, Rate, SlidingWindowLimiter, TokenBucket, WarmUp,
    WarmUpConfig,
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

/// A step of a trace: the time since the step before, the permits, whether the request can wait,
/// and how the oldest request in flight ends, if it does.
type Step = (u64, u64, bool, Option<u8>);

fn trace() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop::option::of(0_u8..3);
    prop::collection::vec((0_u64..400, 1_u64..4, any::<bool>(), outcome), 1..150)
}

const OUTCOMES: [Outcome; 3] = [Outcome::Success, Outcome::Exception, Outcome::Cancelled];

/// The visible part of a decision: the refusal with its limiter, or the wait.
fn seen<P>(decision: &Decision<P>) -> String {
    match decision.refusal() {
        Some(refusal) => format!("{refusal:?} {:?}", refusal.limiter()),
        None => format!("{:?}", decision.wait()),
    }
}

/// The quotas of all limiters, also of those that a refused request gives its permits back to.
fn quotas(limiter: &impl Limiter, now: Timestamp) -> Vec<Quota> {
    let mut quotas = Vec::new();
    limiter.account().each_quota(now, &mut |it| quotas.push(it));
    quotas
}

/// Plays a trace to rules and to the same limiter by hand.
fn play(subject: &Subject, hand: &BoxLimiter, trace: &[Step]) -> Result<(), TestCaseError> {
    let Subject { clock, rules, resource } = subject;
    let mut in_flight: Vec<(Box<dyn Permit>, Box<dyn Permit>)> = Vec::new();
    // A limiter of a combination has a name of its own.
    let hand = Arc::clone(hand).named("rule-0");
    for (step, &(millis, permits, can_wait, ends)) in trace.iter().enumerate() {
        clock.advance(Duration::from_millis(millis));
        let now = leaparray::Clock::now(clock);
        if let (Some(outcome), false) = (ends, in_flight.is_empty()) {
            let (mut rule, mut other) = in_flight.remove(0);
            rule.end_at(now, OUTCOMES[usize::from(outcome)]);
            other.end_at(now, OUTCOMES[usize::from(outcome)]);
        }
        let ask = Ask::at(now).many(permits);
        let ask = if can_wait { ask } else { ask.at_once() };
        let limiter = rules.limiter(resource, &"key");
        // In both ways in turn: they have code of their own.
        let is_limiter = step % 2 == 0;
        let rule = if is_limiter { limiter.ask(&ask) } else { rules.ask(resource, &"key", &ask) };
        let other = hand.ask(&ask);
        prop_assert_eq!(seen(&rule), seen(&other));
        prop_assert_eq!(quotas(&limiter, now), quotas(&hand, now));
        let again = ask.again();
        let peeks = [limiter.foretell(&again), hand.foretell(&again)];
        let [rule_peek, other_peek] = peeks.map(|it| it.map(|it| seen(&it)));
        prop_assert_eq!(rule_peek, other_peek);
        if let (Ok(rule), Ok(other)) = (rule.into_result(), other.into_result()) {
            in_flight.push((Box::new(rule.into_parts().0), Box::new(other.into_parts().0)));
        }
    }
    Ok(())
}

const SECOND: Duration = Duration::from_secs(1);

/// Makes the limiter of a rule by hand.
type Hand = fn(ManualClock) -> BoxLimiter;

fn bucket(clock: ManualClock) -> TokenBucket<ManualClock> {
    TokenBucket::with_clock(Rate::new(20, 10 * SECOND).unwrap(), 8, clock)
}

fn window(clock: ManualClock) -> SlidingWindowLimiter<ManualClock> {
    SlidingWindowLimiter::with_clock(SECOND, 5, clock).unwrap()
}

/// Returns the limiter of one key, which is that of the caller or of the resource.
fn of_key(bucket: TokenBucket<ManualClock>) -> BoxLimiter {
    let keys = Arc::new(Keyed::<String, _>::new(bucket, 100).unwrap());
    OfKey::new(keys, Box::new("key".to_owned())).boxed()
}

/// Returns the limiter of a class that may use 60 % of a limit.
fn of_share<L>(limiter: L) -> BoxLimiter
where
    L: Limiter<Permit: Send + 'static> + LimitInForce + Send + Sync + 'static,
{
    let classes = Classes::new(limiter, &[1.0, 0.6]).unwrap();
    OfClass::new(Arc::new(classes), 1).boxed()
}

/// Returns the limiter of a tenant. Its share is a whole number while it is the only one, and so is
/// not rounded at random.
fn of_tenant<L>(limiter: L) -> BoxLimiter
where
    L: Limiter<Permit: Send + 'static> + LimitInForce + Send + Sync + 'static,
{
    let shares = Arc::new(FairShares::new(limiter, 100).unwrap());
    OfTenant::new(shares, "key", 3).boxed()
}

/// Rules of each kind of permits, waits and peeks, and their limiters by hand.
const RULES: [(&str, Hand); 17] = [
    ("limit = \"5 per second\"", |clock| window(clock).boxed()),
    ("in_flight = 9", |_| ConcurrencyLimiter::new(9).boxed()),
    ("limit = \"20 per 10s, bursts of 8\"", |clock| bucket(clock).boxed()),
    ("breaker = { failures = \"3 in a row\" }", |clock| {
        let config = CircuitConfig::default().no_exception_ratio().consecutive_exceptions(3);
        CircuitBreaker::with_clock(config, clock).boxed()
    }),
    ("pace = \"10 per second\"\nmax_wait = \"500ms\"", |clock| {
        LeakyBucket::with_clock(Rate::per_second(10).unwrap(), SECOND / 2, clock).boxed()
    }),
    ("pace = \"7 per second\"\nmax_wait = \"1s\"", |clock| {
        LeakyBucket::with_clock(Rate::per_second(7).unwrap(), SECOND, clock).boxed()
    }),
    ("in_flight = { min = 2, first = 6, max = 30 }", |clock| {
        let headroom = Headroom::new(LimitRange::new(2, 6, 30).unwrap());
        AdaptiveLimiter::with_clock(headroom, clock).boxed()
    }),
    ("limit = \"20 per 10s, bursts of 8\"\nmode = \"shadow\"", |clock| {
        Shadow::new(bucket(clock), Mode::Shadow).boxed()
    }),
    ("limit = \"5 per second\"\nmode = \"enforce for 50 % of requests\"", |clock| {
        Shadow::new(window(clock), Mode::Requests(Share::percent(50).unwrap())).boxed()
    }),
    ("in_flight = 6\nmode = \"enforce for 30 % of requests\"", |_| {
        let mode = Mode::Requests(Share::percent(30).unwrap());
        Shadow::new(ConcurrencyLimiter::new(6), mode).boxed()
    }),
    (
        "in_flight = 9\npriority = \"client\"\nshares = { \"*\" = \"100 %\", key = \"60 %\" }",
        |_| of_share(Arc::new(ConcurrencyLimiter::new(9))),
    ),
    (
        "in_flight = { min = 2, first = 6, max = 30 }\npriority = \"client\"\n\
         shares = { \"*\" = \"60 %\", other = \"100 %\" }",
        |clock| {
            let headroom = Headroom::new(LimitRange::new(2, 6, 30).unwrap());
            of_share(Arc::new(AdaptiveLimiter::with_clock(headroom, clock)))
        },
    ),
    ("key = \"client\"\nlimit = \"20 per 10s, bursts of 8\"", |clock| of_key(bucket(clock))),
    ("key = \"resource\"\nin_flight = 8", |_| ConcurrencyLimiter::new(8).boxed()),
    (
        "key = \"resource\"\nin_flight = 9\npriority = \"client\"\n\
         shares = { \"*\" = \"100 %\", key = \"60 %\" }",
        |_| of_share(Arc::new(ConcurrencyLimiter::new(9))),
    ),
    ("in_flight = 18\ntenant = \"client\"\nweights = { key = 3 }\nmax_keys = 100", |_| {
        of_tenant(Arc::new(ConcurrencyLimiter::new(18)))
    }),
    (
        "in_flight = { min = 2, first = 6, max = 30 }\ntenant = \"client\"\n\
         weights = { \"*\" = 3 }\nmax_keys = 100",
        |clock| {
            let headroom = Headroom::new(LimitRange::new(2, 6, 30).unwrap());
            of_tenant(Arc::new(AdaptiveLimiter::with_clock(headroom, clock)))
        },
    ),
];

/// Plays a trace to some rules, and to their limiters by hand.
fn decide_as_a_combination(trace: &[Step], rules: &[&(&str, Hand)]) -> Result<(), TestCaseError> {
    let lines: Vec<_> = rules.iter().map(|(lines, _)| *lines).collect();
    let subject = subject(&lines);
    let mut hand: Vec<_> = rules.iter().enumerate().collect();
    // Keys are asked last.
    hand.sort_by_key(|(_, (lines, _))| lines.starts_with("key"));
    let of = |(index, (_, hand)): &(usize, &&(&str, Hand))| {
        hand(subject.clock.clone()).named(&format!("rule-{index}")).boxed()
    };
    play(&subject, &AllOf::new(hand.iter().map(of).collect::<Vec<_>>()).boxed(), trace)
}

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
    fn class_decides_as_by_hand(trace in trace()) {
        for (lines, hand) in RULES.iter().filter(|(lines, _)| lines.contains("priority")) {
            let subject = subject(&[lines]);
            play(&subject, &hand(subject.clock.clone()), &trace)?;
        }
    }

    #[test]
    fn tenant_decides_as_by_hand(trace in trace()) {
        for (lines, hand) in RULES.iter().filter(|(lines, _)| lines.contains("tenant")) {
            let subject = subject(&[lines]);
            play(&subject, &hand(subject.clock.clone()), &trace)?;
        }
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
    fn rules_of_one_resource_decide_as_a_combination(
        trace in trace(),
        rules in prop::sample::subsequence(&RULES[..], 2..=RULES.len()).prop_shuffle(),
    ) {
        decide_as_a_combination(&trace, &rules.iter().collect::<Vec<_>>())?;
    }

    /// None of these rules has conditions, shares or breakers, and one has a key of the caller.
    #[test]
    fn frequent_rules_of_one_resource_decide_as_a_combination(
        trace in trace(),
        places in prop::sample::subsequence(vec![0, 1, 2, 4, 5, 12], 2..=6).prop_shuffle(),
    ) {
        decide_as_a_combination(&trace, &places.iter().map(|it| &RULES[*it]).collect::<Vec<_>>())?;
    }

    #[test]
    fn key_decides_as_by_hand(trace in trace()) {
        let subject = subject(&["key = \"client\"\nlimit = \"6 per 2s, bursts of 4\""]);
        let bucket = TokenBucket::with_clock(Rate::new(6, 2 * SECOND).unwrap(), 4, subject.clock.clone());
        play(&subject, &of_key(bucket), &trace)?;
    }

    #[test]
    fn key_of_any_limiter_decides_as_by_hand(trace in trace()) {
        let subject = subject(&["key = \"resource\"\nlimit = \"5 per second\""]);
        let hand = SlidingWindowLimiter::with_clock(SECOND, 5, subject.clock.clone()).unwrap();
        play(&subject, &hand.boxed(), &trace)?;
    }
}
