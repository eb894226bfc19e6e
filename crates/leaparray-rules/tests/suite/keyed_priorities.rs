//! Rules with a limit for each key, which classes divide.

use std::sync::Arc;

use leaparray::ManualClock;
use leaparray::flow::keyed::KeyedCounts;
use leaparray::flow::watch::WatchedState;
use leaparray::flow::{Ask, Limiter, LimiterExt, Reason};
use leaparray_rules::{Caller, KeySource, RuleSet, Rules};

use crate::priorities::{Held, NOW, SHARES, rules, with};

/// A request of a client, of a class.
pub(crate) struct OfClient(pub(crate) &'static str, pub(crate) &'static str);

impl Caller for OfClient {
    type Key = &'static str;

    fn key(&self, source: &KeySource) -> Option<&'static str> {
        let values = [self.0, self.1];
        let value = values[usize::from(matches!(source, KeySource::Header(_)))];
        (!value.is_empty()).then_some(value)
    }
}

#[test]
fn each_key_has_classes_of_its_own() {
    for limit in ["in_flight = 10", "in_flight = { min = 10, first = 10, max = 10 }"] {
        let of = |limit: &str| with(&format!("key = \"client\"\n{limit}\n{SHARES}"));
        let rules = rules(&of(limit));
        let fill = |client, class| {
            let enter = || rules.try_enter("a", OfClient(client, class)).ok();
            (0..100).map_while(|_| enter()).collect::<Held>()
        };
        let batch = fill("ann", "batch");
        assert_eq!((batch.len(), fill("bob", "batch").len()), (5, 5), "{limit}");
        let a = rules.registry().resource("a").unwrap();
        let refusal = rules.ask(&a, &OfClient("ann", "batch"), &Ask::at(NOW)).refusal().unwrap();
        assert_eq!((refusal.reason, refusal.limiter()), (Reason::GIVES_WAY, Some("r")));
        let held = [fill("ann", ""), fill("ann", "payments"), fill("", "batch")];
        assert_eq!(held.each_ref().map(Vec::len), [3, 2, 5], "{limit}");
        // A change keeps the permits of each key.
        let half = limit.replace("10", "6");
        assert_eq!(rules.apply(&of(&half)).changed, [Arc::from("r")]);
        drop(held);
        assert_eq!((fill("ann", "batch").len(), fill("bob", "batch").len()), (0, 3), "{limit}");
        drop(batch);
        assert_eq!(fill("ann", "payments").len(), 6, "{limit}: each has come back");
    }
}

/// A key with requests in flight is stored until they end: otherwise, it would begin anew.
#[test]
fn busy_key_keeps_its_classes_while_others_come() {
    let rules = rules(&with(&format!("key = \"client\"\nmax_keys = 1\nin_flight = 10\n{SHARES}")));
    let enter = |client| rules.try_enter("a", OfClient(client, "batch"));
    let held: Held = (0..5).map(|_| enter("ann").unwrap()).collect();
    let others = ["bob", "eve", "zoe"].map(|it| enter(it).is_ok());
    assert_eq!(others, [true; 3], "keys without a place share one limit");
    assert!(enter("ann").is_err(), "five of ann are in flight");
    drop(held);
    assert!(enter("ann").is_ok());
}

/// A client that another rule refuses takes no place among the keys.
#[test]
fn refused_request_stores_no_key_with_classes() {
    let text = format!(
        "[[rule]]\nname = \"none\"\nresource = \"a\"\nin_flight = 0\n\n[[rule]]\nname = \"r\"\n\
         resource = \"a\"\nkey = \"client\"\nin_flight = \"adaptive\"\npriority = \"header:x-class\"\n\
         {SHARES}\n"
    );
    let rules = rules(&RuleSet::parse(&text).unwrap());
    let a = rules.registry().resource("a").unwrap();
    for client in ["ann", "bob", "eve"] {
        assert!(rules.try_enter("a", OfClient(client, "batch")).is_err());
        assert!(rules.limiter(&a, &OfClient(client, "batch")).account().quota(NOW).is_some());
    }
    let WatchedState::Keyed { counts, .. } = &rules.registry().watched()[1].state else {
        panic!("keys")
    };
    assert_eq!(counts.keys, 0);
}

fn refusals_of(rules: &Rules<ManualClock>) -> (Vec<(String, u64)>, KeyedCounts) {
    let WatchedState::Keyed { counts, top_refused, .. } = &rules.registry().watched()[0].state
    else {
        panic!("keys")
    };
    (top_refused.iter().map(|it| (it.key.clone(), it.refusals)).collect(), *counts)
}

/// The keys are shown as those of a rule without classes are.
#[test]
fn refused_requests_of_a_key_with_classes_are_counted() {
    for limit in ["in_flight = 4", "in_flight = { min = 4, first = 4, max = 4 }"] {
        let rules = rules(&with(&format!("key = \"client\"\nmax_keys = 2\n{limit}\n{SHARES}")));
        let a = rules.registry().resource("a").unwrap();
        let enter = |client, class| rules.try_enter("a", OfClient(client, class)).ok();
        let held: Held = (0..5).filter_map(|_| enter("ann", "batch")).collect();
        assert!(rules.ask(&a, &OfClient("ann", "batch"), &Ask::at(NOW)).is_refused());
        let more: Held = (0..5).filter_map(|_| enter("bob", "payments")).collect();
        let shared: Held = (0..5).filter_map(|_| enter("eve", "batch")).collect();
        assert_eq!((held.len(), more.len(), shared.len()), (2, 4, 2), "{limit}");
        let (refused, counts) = refusals_of(&rules);
        assert_eq!(refused, [("ann".to_owned(), 4), ("bob".to_owned(), 1)], "{limit}");
        assert_eq!((counts.keys, counts.no_room_refusals), (2, 3), "{limit}");
    }
}

/// A request that is only admitted to the rest of a limit that keys without a place share is not
/// foretold to be admitted to a limit of its own.
#[test]
fn peek_of_a_key_without_a_place_is_that_of_its_class() {
    let rules = rules(&with(&format!("key = \"client\"\nmax_keys = 1\nin_flight = 10\n{SHARES}")));
    let a = rules.registry().resource("a").unwrap();
    let enter = |client, class| rules.try_enter("a", OfClient(client, class));
    let mut held = vec![enter("ann", "batch").unwrap()];
    for _ in 0..5 {
        for class in ["batch", "", "payments"] {
            let (caller, before) = (OfClient("eve", class), held.len());
            let limiter = rules.limiter(&a, &caller);
            let is_foretold = limiter.foretell(&Ask::at(NOW)).is_some_and(|it| it.is_admitted());
            assert_eq!(limiter.account().quota(NOW), None, "keys that are not known share it");
            held.extend(enter("eve", class));
            assert_eq!(is_foretold, held.len() > before, "{class} after {before}");
        }
    }
    assert_eq!(held.len(), 1 + 10);
}
