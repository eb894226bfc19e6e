//! Changes of the rules, also while requests are decided.

mod drawn;
mod in_the_middle;
mod places;
mod replaced;
mod warm_up;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use leaparray::flow::watch::WatchedState;
use leaparray::flow::{Ask, LimiterExt};
use leaparray::{Clock, ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp};
use leaparray_rules::{Changes, RuleSet, Rules};

fn rules() -> (ManualClock, Rules<ManualClock>) {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    (clock, Rules::new(Arc::new(registry)))
}

/// Returns a file of rules for the resource `a`.
fn file(rules: &[(&str, &str)]) -> RuleSet {
    let table = |(name, limiter): &(&str, &str)| {
        format!("[[rule]]\nname = \"{name}\"\nresource = \"a\"\n{limiter}\n")
    };
    RuleSet::parse(&rules.iter().map(table).collect::<String>()).unwrap()
}

fn admitted(rules: &Rules<ManualClock>, tries: usize) -> usize {
    (0..tries).filter(|_| rules.enter("a", "ann").unwrap().is_admitted()).count()
}

/// The names of what was changed: added, changed, begun anew, removed.
fn names(changes: &Changes) -> [Vec<&str>; 4] {
    let Changes { added, changed, begun_anew, removed, .. } = changes;
    [added, changed, begun_anew, removed].map(|it| it.iter().map(|name| &**name).collect())
}

#[test]
fn bucket_of_a_new_rule_is_empty_if_the_rule_says_so() {
    let (clock, rules) = rules();
    let empty = "limit = \"3600 per hour, bursts of 5\"\nstarts = \"empty\"";
    let version = file(&[("r", empty)]);
    rules.apply(&version);
    assert_eq!(admitted(&rules, 9), 0);
    clock.advance(Duration::from_secs(2));
    assert_eq!(admitted(&rules, 9), 2);
    // Neither the same text again nor a change of it makes it full or empty.
    clock.advance(Duration::from_secs(2));
    rules.apply(&version);
    rules.apply(&file(&[("r", &empty.replace("bursts of 5", "bursts of 4"))]));
    assert_eq!(admitted(&rules, 9), 2);
    rules.apply(&file(&[("r", "limit = \"3600 per hour, bursts of 5\"")]));
    assert_eq!(admitted(&rules, 9), 0);
    // The text of the rule says it.
    let text = version.rules()[0].to_string();
    assert_eq!(RuleSet::parse(&text).unwrap(), version, "{text}");
}

#[test]
fn rule_that_is_changed_in_its_numbers_keeps_its_state() {
    for (before, after, left) in [
        ("limit = \"9 per hour\"", "limit = \"5 per hour\"", 2),
        ("limit = \"9 per hour\"", "limit = \"11 per hour\"", 8),
        ("limit = \"9 per hour\"\nbuckets = 2", "limit = \"5 per hour\"\nbuckets = 2", 2),
        ("limit = \"9 per hour, bursts of 9\"", "limit = \"9 per day, bursts of 12\"", 6),
        ("limit = \"9 per hour, bursts of 9\"", "limit = \"9 per hour, bursts of 4\"", 4),
        ("in_flight = 9", "in_flight = 5", 2),
        ("key = \"client\"\nlimit = \"9 per hour\"", "key = \"client\"\nlimit = \"5 per hour\"", 2),
        (
            "key = \"client\"\nlimit = \"9 per hour, bursts of 9\"",
            "key = \"client\"\nlimit = \"9 per hour, bursts of 4\"",
            4,
        ),
    ] {
        let (_, rules) = rules();
        assert_eq!(names(&rules.apply(&file(&[("r", before)])))[0], ["r"]);
        let held: Vec<_> = (0..3).map(|_| rules.try_enter("a", "ann").unwrap()).collect();
        let changes = rules.apply(&file(&[("r", after)]));
        assert_eq!(names(&changes)[1], ["r"], "{after}");
        let more: Vec<_> = (0..20).map_while(|_| rules.try_enter("a", "ann").ok()).collect();
        assert_eq!(more.len(), left, "{before} to {after}");
        drop(held);
    }
}

#[test]
fn breaker_that_is_open_stays_open_when_its_numbers_change() {
    let (clock, rules) = rules();
    let breaker = |wait: &str| {
        file(&[("b", &format!("breaker = {{ failures = \"2 in a row\", wait = \"{wait}\" }}"))])
    };
    rules.apply(&breaker("5s"));
    for _ in 0..2 {
        rules.try_enter("a", ()).unwrap().exception();
    }
    assert_eq!(admitted(&rules, 1), 0);
    assert_eq!(names(&rules.apply(&breaker("1s")))[1], ["b"]);
    assert_eq!(admitted(&rules, 1), 0, "it has not forgotten");
    clock.advance(Duration::from_secs(5));
    assert_eq!(admitted(&rules, 1), 1, "a probe");
}

#[test]
fn rule_of_another_kind_begins_anew() {
    for (before, after) in [
        ("limit = \"3 per hour\"", "in_flight = 3"),
        ("limit = \"3 per hour\"", "key = \"client\"\nlimit = \"3 per hour\""),
        ("key = \"client\"\nin_flight = 3", "key = \"client\"\nmax_keys = 9\nin_flight = 3"),
    ] {
        let (_, rules) = rules();
        rules.apply(&file(&[("r", before)]));
        let held: Vec<_> = (0..3).map(|_| rules.try_enter("a", ()).unwrap()).collect();
        assert!(rules.try_enter("a", ()).is_err());
        assert_eq!(names(&rules.apply(&file(&[("r", after)])))[2], ["r"], "{after}");
        assert_eq!(admitted(&rules, 1), 1, "{after}");
        drop(held);
    }
}

#[test]
fn limiter_that_is_replaced_is_charged_with_what_the_old_one_has_charged() {
    for (before, after, left, back) in [
        ("limit = \"5 per hour\"", "limit = \"10 per 2h\"", 7, 0),
        ("limit = \"5 per hour\"", "limit = \"5 per hour\"\nbuckets = 2", 2, 0),
        ("limit = \"5 per hour\"", "limit = \"5 per hour, bursts of 5\"", 2, 0),
        ("limit = \"5 per hour, bursts of 5\"", "limit = \"2 per day\"", 0, 2),
    ] {
        let (_, rules) = rules();
        rules.apply(&file(&[("r", before)]));
        assert_eq!(admitted(&rules, 3), 3);
        assert_eq!(names(&rules.apply(&file(&[("r", after)])))[2], ["r"], "{after}");
        assert_eq!(admitted(&rules, 20), left, "{before} to {after}");
        rules.apply(&file(&[("r", before)]));
        assert_eq!(admitted(&rules, 20), back, "back at {before}");
    }
}

#[test]
fn rule_that_comes_back_within_an_hour_takes_its_state_up_again() {
    let (clock, rules) = rules();
    let both = file(&[
        ("r", "key = \"client\"\nlimit = \"3 per day, bursts of 3\""),
        ("other", "in_flight = 9"),
    ]);
    let one = file(&[("other", "in_flight = 9")]);
    rules.apply(&both);
    assert_eq!(admitted(&rules, 2), 2);
    rules.apply(&one);
    assert_eq!(admitted(&rules, 9), 9);
    clock.advance(Duration::from_secs(3_599));
    let changes = rules.apply(&both);
    assert_eq!(names(&changes)[0], ["r"]);
    assert_eq!(admitted(&rules, 9), 1);
    rules.apply(&one);
    clock.advance(Duration::from_secs(3_600));
    rules.apply(&both);
    assert_eq!(admitted(&rules, 9), 3, "forgotten");
}

#[test]
fn requests_without_the_key_are_counted() {
    let (_, rules) = rules();
    let key = "key = \"header:x-app\"\nlimit = \"2 per hour, bursts of 2\"";
    let only = "only = { \"header:x-plan\" = \"free\" }\nkey = \"client\"\nin_flight = 9";
    rules.apply(&file(&[("r", key), ("all", "in_flight = 9"), ("free", only)]));
    assert_eq!(admitted(&rules, 1), 1);
    assert_eq!(rules.status().without_key, []);
    let answers = [(); 3].map(|()| rules.try_enter("a", ()).is_ok());
    assert_eq!(answers, [true, true, false]);
    assert_eq!(rules.status().without_key, [("r".into(), 3)]);
}

#[test]
fn keys_without_room_share_one_limit() {
    let (_, rules) = rules();
    rules.apply(&file(&[(
        "r",
        "key = \"client\"\nmax_keys = 2\nlimit = \"1 per hour, bursts of 1\"",
    )]));
    let admits = |key: &str| rules.enter("a", key).unwrap().is_admitted();
    assert_eq!(["a", "b", "c", "d", "a"].map(admits), [true, true, true, false, false]);
}

#[test]
fn request_of_the_other_direction_is_told() {
    let (_, rules) = rules();
    let text = "[[rule]]\nname = \"r\"\noutbound = \"payments\"\nin_flight = 0";
    rules.apply(&RuleSet::parse(text).unwrap());
    assert!(rules.enter_outbound("payments", ()).unwrap().is_refused());
    assert!(rules.status().misdirected.is_empty());
    let text = text.replace("payments", "stock");
    rules.apply(&RuleSet::parse(&text).unwrap());
    assert!(rules.enter("stock", ()).unwrap().is_admitted(), "an inbound resource");
    assert_eq!(rules.status().misdirected, [Arc::from("r")]);
}

#[test]
fn rule_keeps_its_state_when_its_place_its_resources_or_its_mode_change() {
    let (_, rules) = rules();
    let limit = ("r", "limit = \"3 per hour\"");
    rules.apply(&file(&[limit]));
    assert_eq!(admitted(&rules, 2), 2);
    rules.apply(&file(&[("other", "in_flight = 100"), limit]));
    assert_eq!(admitted(&rules, 5), 1);
    let changes = rules.apply(&file(&[("r", "limit = \"3 per hour\"\nmode = \"off\"")]));
    assert_eq!(names(&changes), [vec![], vec!["r"], vec![], vec!["other"]]);
    assert_eq!(admitted(&rules, 5), 5, "off");
    let wider = "[[rule]]\nname = \"r\"\nresource = [\"a\", \"b\"]\nlimit = \"3 per hour\"";
    rules.apply(&RuleSet::parse(wider).unwrap());
    assert_eq!(admitted(&rules, 5), 0);
    assert!(rules.try_enter("b", ()).is_err(), "one limit for both");
}

#[test]
fn same_file_changes_nothing() {
    let (_, rules) = rules();
    let set = file(&[("r", "limit = \"3 per hour\""), ("b", "breaker = \"adaptive\"")]);
    rules.apply(&set);
    let changes = rules.apply(&set);
    assert!(changes.is_empty() && changes.unchanged == 2);
    assert_eq!(
        changes.to_string(),
        "version 2: 0 added, 0 changed, 0 begun anew, 0 removed, 2 as before"
    );
}

#[test]
fn permit_of_a_removed_rule_ends_where_it_began() {
    let (_, rules) = rules();
    let one = file(&[("r", "in_flight = 1")]);
    rules.apply(&one);
    let old = rules.try_enter("a", ()).unwrap();
    assert_eq!(names(&rules.apply(&RuleSet::default()))[3], ["r"]);
    assert!(rules.try_enter("a", ()).is_ok(), "no rule");
    rules.apply(&one);
    assert!(rules.try_enter("a", ()).is_err(), "the rule is back, and its permit is still in use");
    // A limiter of another kind knows nothing of it.
    rules.apply(&file(&[("r", "in_flight = \"adaptive\"")]));
    let new = rules.try_enter("a", ()).unwrap();
    old.success();
    rules.apply(&one);
    assert!(rules.try_enter("a", ()).is_ok(), "the old permit has come back to the old limiter");
    new.success();
}

#[test]
fn registry_shows_the_rules_that_decide() {
    let (_, rules) = rules();
    let registry = Arc::clone(rules.registry());
    let shown = || {
        let watched = registry.watched();
        watched.iter().map(|it| (it.name.to_string(), it.resource.to_string())).collect::<Vec<_>>()
    };
    let pair = |name: &str, resource: &str| (name.to_owned(), resource.to_owned());
    rules.apply(&file(&[("orders", "in_flight = 3"), ("gone", "in_flight = 1")]));
    assert_eq!(shown(), [pair("gone", "a"), pair("orders", "a")]);
    let api = "[[rule]]\nname = \"orders\"\nresource = \"/api/*\"\nin_flight = 4";
    rules.apply(&RuleSet::parse(api).unwrap());
    assert_eq!(shown(), [pair("orders", "orders")]);
    let WatchedState::Quota(quota) = registry.watched()[0].state else { panic!("a quota") };
    assert_eq!(quota.limit, 4);
    rules.apply(&file(&[("orders", "limit = \"7 per second\"")]));
    let WatchedState::Quota(quota) = registry.watched()[0].state else { panic!("a quota") };
    assert_eq!(quota.limit, 7, "that of the other kind");
    // A name of the program stays the program's.
    let own = Arc::new(leaparray::flow::ConcurrencyLimiter::new(99));
    registry.watch("mine", own).unwrap();
    let changes = rules.apply(&file(&[("mine", "in_flight = 3")]));
    assert_eq!(changes.not_shown, [Arc::from("mine")]);
    assert_eq!(admitted(&rules, 1), 1);
    let WatchedState::Quota(quota) = registry.watched()[0].state else { panic!("a quota") };
    assert_eq!(quota.limit, 99);
    drop(rules);
}

/// Neither version admits any request: in each, one of the two rules has a limit of 0. Rules in
/// between make a change last longer.
#[test]
fn no_request_is_admitted_by_half_of_two_versions() {
    let version = |first: u64, second: u64| {
        let between = (0..100).map(|index| {
            format!("[[rule]]\nname = \"{index}\"\nresource = \"b\"\nin_flight = {first}\n")
        });
        let between: String = between.collect();
        let of = |name: &str, limit: u64| {
            format!("[[rule]]\nname = \"{name}\"\nresource = \"a\"\nin_flight = {limit}\n")
        };
        let text = format!("{}{between}{}", of("first", first), of("second", second));
        RuleSet::parse(&text).unwrap()
    };
    let [one, other] = [version(0, 100), version(100, 0)];
    let rules = Rules::new(Arc::new(Registry::new()));
    rules.apply(&one);
    let (is_over, start) = (AtomicBool::new(false), Barrier::new(5));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let resource = rules.registry().resource("a").unwrap();
                start.wait();
                while !is_over.load(Ordering::Relaxed) {
                    assert!(rules.limiter(&resource, &()).try_acquire().is_refused());
                    let ask = Ask::at(resource.clock().now());
                    assert!(rules.ask(&resource, &(), &ask).is_refused());
                }
            });
        }
        start.wait();
        for _ in 0..40 {
            rules.apply(&other);
            rules.apply(&one);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// 1,000 changes beside four threads of requests: never over the larger of two limits, no permit
/// lost, and each request is counted once.
#[test]
fn limits_hold_while_they_change() {
    let rules = Rules::new(Arc::new(Registry::new()));
    let in_flight = |limit: u64, more: &str| {
        let text = format!(
            "[[rule]]\nname = \"all\"\nresource = \"a\"\nin_flight = {limit}\n\
             [[rule]]\nname = \"keys\"\nresource = \"*\"\nkey = \"client\"\nin_flight = 3\n{more}"
        );
        RuleSet::parse(&text).unwrap()
    };
    let extra = "[[rule]]\nname = \"extra\"\nresource = \"a\"\nin_flight = 2\n";
    let versions = [in_flight(2, ""), in_flight(3, ""), in_flight(3, extra)];
    rules.apply(&versions[0]);
    let (is_over, inside, most) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (passed, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let start = Barrier::new(5);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (rules, is_over, inside, most) = (&rules, &is_over, &inside, &most);
            let (passed, refused, start) = (&passed, &refused, &start);
            scope.spawn(move || {
                let key = ["ann", "bob"][thread % 2];
                start.wait();
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(entry) = rules.try_enter("a", key) else {
                        refused.fetch_add(1, Ordering::Relaxed);
                        continue;
                    };
                    most.fetch_max(inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    passed.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::Relaxed);
                    entry.success();
                }
            });
        }
        start.wait();
        for change in 0..1_000 {
            rules.apply(&versions[change % 3]);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let most = most.into_inner();
    assert!(most <= 3, "{most} in flight");
    let node = rules.registry().resource("a").unwrap();
    let lifetime = node.lifetime();
    let sum = |event| lifetime.sum(event);
    assert_eq!(sum(MetricEvent::Pass), passed.into_inner());
    assert_eq!(sum(MetricEvent::Success), sum(MetricEvent::Pass));
    assert_eq!(sum(MetricEvent::Block), refused.into_inner());
    assert_eq!(node.concurrency(), 0);
    // Each permit has come back.
    rules.apply(&versions[1]);
    let held: Vec<_> = (0..9).map_while(|_| rules.try_enter("a", "ann").ok()).collect();
    assert_eq!(held.len(), 3);
}

/// The rates, too: in an interval that is longer than the test, no more than the larger limit. A
/// window loses no permit. A bucket cannot give those back that were taken before it was changed.
#[test]
fn rates_hold_while_they_change() {
    // A bucket is not filled by a higher burst.
    for (kind, totals) in [
        ("limit = \"N per day\"", 3_000..=3_000),
        ("limit = \"N per day, bursts of N\"", 1_000..=2_000),
    ] {
        let (_, rules) = rules();
        let version = |limit: u64, more: &str| {
            let kind = kind.replace('N', &limit.to_string());
            file(&[("all", &kind), ("more", more)])
        };
        let none = "in_flight = 1000";
        let versions =
            [version(2_000, none), version(3_000, none), version(3_000, "limit = \"0 per day\"")];
        rules.apply(&versions[0]);
        let (is_over, passed) = (AtomicBool::new(false), AtomicU64::new(0));
        let start = Barrier::new(5);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    while !is_over.load(Ordering::Relaxed) {
                        if let Ok(entry) = rules.try_enter("a", ()) {
                            passed.fetch_add(1, Ordering::Relaxed);
                            entry.success();
                        }
                        std::thread::yield_now();
                    }
                });
            }
            start.wait();
            for change in 0..1_000 {
                rules.apply(&versions[change % 3]);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        rules.apply(&versions[1]);
        let rest = admitted(&rules, 9_000) as u64;
        let total = passed.into_inner() + rest;
        assert!(totals.contains(&total), "{kind}: {total}");
    }
}

/// Returns the limits and the windows of the quotas that the registry shows.
fn shown(rules: &Rules<ManualClock>) -> Vec<(u64, Option<Duration>, u64)> {
    let watched = rules.registry().watched();
    let quotas = watched.iter().map(|it| match it.state {
        WatchedState::Quota(quota) => (quota.limit, quota.window, quota.remaining),
        _ => panic!("a quota"),
    });
    quotas.collect()
}

/// The version before admits no second request, and the next one none at all: a decision that
/// combines the old list with the new number would admit it.
#[test]
fn decision_by_half_of_two_versions_is_taken_back_and_made_anew() {
    for (before, after, left) in [
        ("in_flight = 1", "in_flight = 7", 6),
        ("limit = \"1 per hour\"", "limit = \"7 per hour\"", 6),
    ] {
        let (_, rules) = rules();
        rules.apply(&file(&[("a rises", before)]));
        let held = rules.try_enter("a", ()).unwrap();
        let resource = rules.registry().resource("a").unwrap();
        let admission = rules.limiter(&resource, &());
        rules.apply(&file(&[("a rises", after), ("b is new", "limit = \"0 per hour\"")]));
        let refusal = admission.try_acquire().refusal().expect(after);
        assert_eq!(refusal.limiter(), Some("b is new"), "{after}");
        assert_eq!(shown(&rules)[0].2, left, "{after}: nothing is charged");
        drop(held);
    }
}

#[test]
fn decision_stands_beside_a_change_of_other_rules_and_of_one_number() {
    let of_key = |name, burst: u64| {
        let limit = format!("key = \"client\"\nlimit = \"1 per hour, bursts of {burst}\"");
        (name, limit)
    };
    let versions = |burst: u64, other: u64| {
        let [(a, a_limit), (b, b_limit)] = [of_key("a", burst), of_key("b", 9)];
        let other =
            format!("[[rule]]\nname = \"other\"\nresource = \"other\"\nin_flight = {other}\n");
        let text = [(a, a_limit), (b, b_limit)].map(|(name, limit)| {
            format!("[[rule]]\nname = \"{name}\"\nresource = \"a\"\n{limit}\n")
        });
        RuleSet::parse(&format!("{}{other}", text.concat())).unwrap()
    };
    for next in [versions(3, 8), versions(5, 7)] {
        let (_, rules) = rules();
        rules.apply(&versions(3, 7));
        let resource = rules.registry().resource("a").unwrap();
        let admission = rules.limiter(&resource, &"ann");
        rules.apply(&next);
        assert!(admission.try_acquire().is_admitted());
        // A permit of a key cannot be given back: a decision that is made anew takes another one.
        assert_eq!(admitted(&rules, 9), 2);
    }
}

#[test]
fn change_and_its_return_are_two_changes() {
    let (_, rules) = rules();
    let low = file(&[("r", "in_flight = 1")]);
    let high = file(&[("r", "in_flight = 2"), ("none", "limit = \"0 per hour\"")]);
    rules.apply(&low);
    let resource = rules.registry().resource("a").unwrap();
    let admission = rules.limiter(&resource, &());
    let again = admission.clone();
    rules.apply(&high);
    rules.apply(&low);
    let permit = admission.try_acquire().at_once().unwrap();
    assert!(again.try_acquire().is_refused(), "one in flight");
    drop(permit);
    assert!(again.try_acquire().is_admitted(), "its first decision was given back once");
}

#[test]
fn keys_and_refunds_are_those_of_the_version_that_has_decided() {
    let (_, rules) = rules();
    let keyed = |name, burst| {
        (name, format!("key = \"client\"\nlimit = \"1 per hour, bursts of {burst}\""))
    };
    let apply = |name, burst| {
        let (name, limit) = keyed(name, burst);
        rules.apply(&file(&[(name, &limit)]));
    };
    apply("old", 1);
    let resource = rules.registry().resource("a").unwrap();
    let [ann, bob] = ["ann", "bob"].map(|key| rules.limiter(&resource, &key));
    apply("new", 1);
    assert!(ann.try_acquire().is_admitted());
    assert_eq!(ann.try_acquire().refusal().unwrap().limiter(), Some("new"));
    assert!(bob.try_acquire().is_admitted(), "another key");
    // The limiter of the new version gets the permit back, and not the limiter of the old one.
    rules.apply(&file(&[("all", "limit = \"2 per hour, bursts of 2\"")]));
    let admission = rules.limiter(&resource, &"ann");
    rules.apply(&file(&[("all 2", "limit = \"3 per hour, bursts of 3\"")]));
    let now = rules.registry().clock().now();
    assert!(admission.try_acquire_at(now, 1).is_admitted());
    assert_eq!(shown(&rules)[0].2, 2);
    assert!(admission.refund_at(now, 1, Duration::ZERO));
    assert_eq!(shown(&rules)[0].2, 3);
}

/// A change lowers what falls before the list is replaced, and no decision holds it up.
#[test]
fn change_does_not_wait_for_a_decision() {
    let (_, rules) = rules();
    // Of the third rule, the rate rises and the burst falls.
    rules.apply(&file(&[
        ("a falls", "in_flight = 5"),
        ("b rises", "in_flight = 1"),
        ("c", "limit = \"1 per hour, bursts of 9\""),
    ]));
    let resource = rules.registry().resource("a").unwrap();
    let admission = rules.limiter(&resource, &());
    rules.apply(&file(&[
        ("a falls", "in_flight = 2"),
        ("b rises", "in_flight = 7"),
        ("c", "limit = \"1 per second, bursts of 2\""),
    ]));
    let seconds = Some(Duration::from_secs(2));
    assert_eq!(shown(&rules), [(2, None, 2), (7, None, 7), (2, seconds, 2)]);
    assert!(admission.try_acquire().is_admitted());
}

/// A refusal counts at the rule that has refused, in all versions of it, and whichever way decides.
#[test]
fn refusals_are_counted_at_the_rule_that_refuses() {
    let (_, rules) = rules();
    let refused = || rules.status().refused;
    let alone = |limit: &str| file(&[("alone", limit)]);
    rules.apply(&alone("limit = \"1 per hour\""));
    assert_eq!(admitted(&rules, 3), 1);
    assert_eq!(refused(), [(Arc::from("alone"), 2)]);
    rules.apply(&alone("limit = \"2 per hour\""));
    assert_eq!(admitted(&rules, 3), 1);
    rules.apply(&alone("in_flight = 0"));
    assert_eq!(admitted(&rules, 1), 0);
    assert_eq!(refused(), [(Arc::from("alone"), 5)], "of another number, and of another kind");
    let keyed = "key = \"client\"\nlimit = \"1 per hour, bursts of 1\"";
    rules.apply(&file(&[("wide", "in_flight = 9"), ("keyed", keyed)]));
    assert_eq!(admitted(&rules, 3), 1);
    assert_eq!(refused(), [(Arc::from("keyed"), 2)]);
    let resource = rules.registry().resource("a").unwrap();
    let admission = rules.limiter(&resource, &"ann");
    assert!(admission.try_acquire().is_refused());
    assert_eq!(refused(), [(Arc::from("keyed"), 3)]);
    let ask = Ask::at(rules.registry().clock().now()).again();
    assert!(admission.ask(&ask).is_refused());
    assert_eq!(refused(), [(Arc::from("keyed"), 3)], "a question that is asked once more");
    // One that is decided anew counts at the rule of the newest version.
    let admission = rules.limiter(&resource, &"bob");
    rules.apply(&file(&[("wide", "in_flight = 10"), ("none", "limit = \"0 per hour\"")]));
    assert!(admission.try_acquire().is_refused());
    assert_eq!(refused(), [(Arc::from("none"), 1)]);
}
