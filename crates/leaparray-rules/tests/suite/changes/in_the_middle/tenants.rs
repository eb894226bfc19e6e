//! Changes between the decisions of two rules with tenants.

use std::collections::VecDeque;
use std::sync::Arc;

use leaparray::flow::watch::WatchedState;
use leaparray::flow::{AllOf, Ask, ConcurrencyLimiter, LimiterExt};
use leaparray::{Registry, RegistryConfig, Timestamp};
use leaparray_rules::{RuleSet, Rules};

use super::{Hook, Hooked, file};

/// Has each reading of the clock apply the next one of the versions.
fn change_at_each_reading(clock: &Hooked, rules: Rules<Hooked>, mut versions: VecDeque<RuleSet>) {
    let Some(version) = versions.pop_front() else { return };
    let again = clock.clone();
    let call = Box::new(move || {
        rules.apply(&version);
        change_at_each_reading(&again, rules, versions);
    });
    *clock.0.lock().unwrap() = Some(Hook { readings_before: 0, call });
}

/// Each version refuses all requests: one by its first rule with tenants, and the other by its
/// second. After each of them, a bucket reads the clock, at a peek and at a decision. So, with
/// enough changes, both rules admit the request, each by the version that the other one refuses by.
/// With fewer, the first one has admitted it when the second one refuses it.
#[test]
fn tenants_get_the_permits_of_half_a_decision_back() {
    let version = |first: u64, second: u64| {
        let flight = |name: &str, limit: u64| {
            format!(
                "[[rule]]\nname = \"{name}\"\nresource = \"a\"\nin_flight = {limit}\n\
                 tenant = \"header:x-user\"\n"
            )
        };
        let bucket = |name: &str| {
            format!(
                "[[rule]]\nname = \"{name}\"\nresource = \"a\"\n\
                 limit = \"999 per hour, bursts of 999\"\n"
            )
        };
        let rules = [flight("one", first), bucket("b"), flight("two", second), bucket("c")];
        RuleSet::parse(&rules.concat()).unwrap()
    };
    let versions = [version(0, 100), version(100, 0)];
    // Later than the clock by more than any lead, so that the buckets read it.
    let ask = Ask::at(Timestamp::from_secs(1 << 30));
    for changes in 0..8 {
        let clock = Hooked::default();
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let rules = Rules::new(Arc::new(registry));
        rules.apply(&versions[1]);
        let a = rules.registry().resource("a").unwrap();
        assert!(rules.ask(&a, &"ann", &ask.many(0)).is_admitted());
        let next = versions.iter().cycle().take(changes).cloned().collect();
        change_at_each_reading(&clock, rules.clone(), next);
        let decision = rules.ask(&a, &"ann", &ask);
        assert!(decision.is_refused(), "{changes} changes");
        *clock.0.lock().unwrap() = None;

        rules.apply(&version(100, 100));
        for shown in rules.registry().watched() {
            if let WatchedState::Quota(quota) = shown.state
                && quota.limit == 100
            {
                assert_eq!(quota.remaining, 100, "{changes} changes, {}", shown.name);
            }
        }
        // All but a reserve of a sixteenth.
        let share = [95, 94].map(|permits| rules.ask(&a, &"ann", &ask.many(permits)).is_admitted());
        assert_eq!(share, [false, true], "{changes} changes");
    }
}

/// The rule with tenants is new in the second version, or has a lower limit there. The request is
/// decided anew beside the bucket, by a peek at each rule. That is the first refusal of the tenant,
/// also if the rule has admitted the request by the first version.
#[test]
fn tenant_that_is_refused_by_a_decision_made_anew_is_hungry() {
    let tenants = "tenant = \"header:x-user\"\nweights = { ann = 255 }";
    let bucket = ("bucket", "limit = \"999 per hour, bursts of 999\"");
    // Later than the clock by more than any lead, so that the bucket reads it.
    let ask = Ask::at(Timestamp::from_secs(1 << 30));
    for before in ["in_flight = 11".into(), format!("in_flight = 11\n{tenants}")] {
        let after = format!("in_flight = 2\n{tenants}");
        let former = file(&[("flight", &before), bucket]);
        let mut readings = 0;
        loop {
            let clock = Hooked::default();
            let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
            let rules = Rules::new(Arc::new(registry));
            rules.apply(&former);
            let a = rules.registry().resource("a").unwrap();
            assert!(rules.ask(&a, &"ann", &ask.many(0)).is_admitted());
            let (changed, next) = (rules.clone(), file(&[bucket, ("flight", &after)]));
            let call = Box::new(move || drop(changed.apply(&next)));
            *clock.0.lock().unwrap() = Some(Hook { readings_before: readings, call });
            let decision = rules.ask(&a, &"ann", &ask.many(3));
            // The hook has a handle to the rules, whose registry has the clock.
            if clock.0.lock().unwrap().take().is_some() {
                break;
            }
            let refusal = decision.refusal().expect("the limit is 2");
            assert_eq!(refusal.limiter(), Some("flight"), "{before}, {readings}");
            assert_eq!(rules.status().refused[..], [("flight".into(), 1)], "{before}, {readings}");
            // Both permits are free. The share of the other tenant is a 128th of one.
            let other = rules.ask(&a, &"bob", &ask.many(2));
            assert!(other.is_refused(), "{before}, {readings}: the tenant is not hungry");
            readings += 1;
        }
        assert!(readings > 1, "the bucket reads the clock at the peek and at the decision");
    }
}

/// Makes a request of one tenant, for more than the limit of the rules `next`, in a combination,
/// which peeks before it asks for a decision. The rules change from `former` to `next` after
/// as many readings of the clock. Returns whether the tenant is hungry after that; `None` if there
/// were fewer readings.
fn is_hungry_after_change(former: &RuleSet, next: &RuleSet, readings: usize) -> Option<bool> {
    // Later than the clock by more than any lead, so that the bucket reads it.
    let ask = Ask::at(Timestamp::from_secs(1 << 30));
    let clock = Hooked::default();
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    let rules = Rules::new(Arc::new(registry));
    rules.apply(former);
    let a = rules.registry().resource("a").unwrap();
    assert!(rules.ask(&a, &"ann", &ask.many(0)).is_admitted());
    let (changed, next) = (rules.clone(), next.clone());
    let call = Box::new(move || drop(changed.apply(&next)));
    let both = AllOf::new((rules.limiter(&a, &"ann"), Arc::new(ConcurrencyLimiter::new(9))));
    *clock.0.lock().unwrap() = Some(Hook { readings_before: readings, call });
    let decision = both.ask(&ask.many(3));
    // The hook has a handle to the rules, whose registry has the clock.
    if clock.0.lock().unwrap().take().is_some() {
        return None;
    }
    let refusal = decision.refusal().expect("the limit is 2");
    assert_eq!(refusal.limiter(), Some("flight"), "{readings}");
    Some(rules.ask(&a, &"bob", &ask.many(2)).is_refused())
}

const BUCKET: (&str, &str) = ("bucket", "limit = \"999 per hour, bursts of 999\"");

/// The rule gets tenants, so its limiter is another one, at which the combination has not peeked.
#[test]
fn tenant_is_hungry_after_a_decision_made_anew_for_a_combination() {
    let tenants = "in_flight = 2\ntenant = \"header:x-user\"\nweights = { ann = 255 }";
    let former = file(&[("flight", "in_flight = 11"), BUCKET]);
    let next = file(&[BUCKET, ("flight", tenants)]);
    let is_hungry: Vec<_> =
        (0..).map_while(|readings| is_hungry_after_change(&former, &next, readings)).collect();
    assert!(is_hungry.len() > 2, "the bucket reads the clock at both peeks and at the decision");
    assert!(is_hungry.iter().all(|&it| it), "{is_hungry:?}");
}

/// The rule stays, so the combination has peeked at its limiter, which would have admitted the
/// request. The decision makes the last reading, and is then made anew.
#[test]
fn tenant_is_hungry_after_its_limit_was_lowered_in_a_decision_for_a_combination() {
    let flight = |limit: u64| {
        format!("in_flight = {limit}\ntenant = \"header:x-user\"\nweights = {{ ann = 255 }}")
    };
    let former = file(&[("flight", &flight(11)), BUCKET]);
    let next = file(&[("flight", &flight(2))]);
    let is_hungry: Vec<_> =
        (0..).map_while(|readings| is_hungry_after_change(&former, &next, readings)).collect();
    assert!(is_hungry.len() > 2, "the bucket reads the clock at both peeks and at the decision");
    assert_eq!(is_hungry.last(), Some(&true), "{is_hungry:?}");
}
