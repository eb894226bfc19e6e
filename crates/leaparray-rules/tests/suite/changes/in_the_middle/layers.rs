//! A change in the middle of a decision for a layer.

use std::sync::Arc;

use leaparray::flow::{Ask, Limiter, Quota};
use leaparray::{Registry, RegistryConfig, Resource, Timestamp};
use leaparray_rules::Rules;
use leaparray_tower::Limits;

use super::{Hook, Hooked, changed_in_a_decision, file};

/// A layer is told the rules of the version that has decided, for what they have left.
#[test]
fn question_of_a_layer_in_the_middle_of_a_change_is_decided_anew() {
    let ask = Ask::at(Timestamp::from_secs(1 << 30));
    let request = |key: &str| http::Request::get("/").header("x-key", key).body(()).unwrap();
    let bucket = ("r", "limit = \"9 per hour, bursts of 9\"");
    let keyed = ("each", "key = \"header:x-key\"\nlimit = \"1 per hour, bursts of 1\"");
    let none = ("none", "limit = \"0 per hour\"");
    for before in [file(&[bucket]), file(&[bucket, ("more", "in_flight = 9")])] {
        let asked = |rules: &Rules<Hooked>, resource: &Resource<Hooked>, key: &str| {
            rules.limits().ask(&request(key), resource, &ask, false, |limiter, decision| {
                let mut quotas = Vec::new();
                let mut visit = |it: Quota| quotas.extend(it.name);
                limiter.inspect(|it| it.account().each_quota(ask.now(), &mut visit));
                (decision.refusal().map(|it| it.limiter().unwrap()), quotas)
            })
        };
        let (rules, resource) = changed_in_a_decision(&before, file(&[keyed]));
        assert_eq!(asked(&rules, &resource, "ann"), (None, vec!["each"]));
        assert_eq!(rules.status().version, 2, "the change came in between");
        assert_eq!(asked(&rules, &resource, "ann"), (Some("each"), vec!["each"]));
        assert_eq!(asked(&rules, &resource, "bob").0, None);

        let (rules, resource) = changed_in_a_decision(&before, file(&[bucket, none]));
        assert_eq!(asked(&rules, &resource, "ann"), (Some("none"), vec!["r", "none"]));
        assert_eq!(rules.status().refused, [(Arc::from("none"), 1)]);
    }
}

/// Threads share a handle to the resource. Before a refusal by the former version is concluded,
/// another thread has found the place of the rules in the new one.
#[test]
fn refusal_of_a_layer_beside_a_change_is_named_and_counts_once() {
    let now = Timestamp::from_secs(1 << 30);
    let request = http::Request::get("/").header("x-key", "ann").body(()).unwrap();
    for rule in [
        "limit = \"1 per hour, bursts of 1\"",
        "key = \"header:x-key\"\nlimit = \"1 per hour, bursts of 1\"",
    ] {
        let clock = Hooked::default();
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let rules = Rules::new(Arc::new(registry));
        rules.apply(&file(&[("r", rule)]));
        let resource = Arc::new(rules.registry().resource("a").unwrap());
        let refused_by = || {
            rules.limits().ask(&request, &resource, &Ask::at(now), false, |_, decision| {
                decision.refusal().map(|it| it.limiter())
            })
        };
        assert_eq!(refused_by(), None);
        let (other, shared) = (rules.clone(), Arc::clone(&resource));
        let call = Box::new(move || {
            other.apply(&file(&[("r", rule), ("more", "in_flight = 9")]));
            assert!(other.ask(&shared, &"bob", &Ask::at(now).many(0)).is_admitted());
        });
        *clock.0.lock().unwrap() = Some(Hook { readings_before: 0, call });
        assert_eq!(refused_by(), Some(Some("r")), "{rule}");
        assert_eq!(rules.status().version, 2, "the change came in between");
        assert_eq!(rules.status().refused, [(Arc::from("r"), 1)], "{rule}");
    }
}

/// Other rules of the same registry find their own place for the resource while a rule decides on a
/// request. The refusal still has the name of the rule, and counts there, once.
#[test]
fn refusal_of_a_layer_counts_while_other_rules_decide_on_the_resource() {
    let ask = Ask::at(Timestamp::from_secs(1 << 30));
    let request = http::Request::get("/").header("x-key", "ann").body(()).unwrap();
    for key in ["", "key = \"header:x-key\"\n"] {
        let (clock, limit) =
            (Hooked::default(), format!("{key}limit = \"1 per hour, bursts of 1\""));
        let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock.clone()));
        let [rules, others] = [(); 2].map(|()| Rules::new(Arc::clone(&registry)));
        rules.apply(&file(&[("r", &limit)]));
        others.apply(&file(&[("other", "in_flight = 9"), ("another", "in_flight = 9")]));
        let resource = Arc::new(registry.resource("a").unwrap());
        let refused_by = || {
            rules.limits().ask(&request, &resource, &ask, false, |_, decision| {
                decision.refusal().map(|it| it.limiter())
            })
        };
        assert_eq!([(); 2].map(|()| refused_by()), [None, Some(Some("r"))]);
        let handle = Arc::clone(&resource);
        let call = Box::new(move || {
            let ask = Ask::at(Timestamp::from_secs(3_600));
            assert!(others.ask(&handle, &(), &ask).is_admitted());
        });
        *clock.0.lock().unwrap() = Some(Hook { readings_before: 0, call });
        assert_eq!(refused_by(), Some(Some("r")), "{key:?}");
        assert!(clock.0.lock().unwrap().is_none(), "the others decide in the middle");
        assert_eq!(rules.status().refused, [(Arc::from("r"), 2)], "{key:?}");
    }
}
