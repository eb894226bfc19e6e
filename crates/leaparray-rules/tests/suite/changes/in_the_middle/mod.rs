//! A change, another request or a panic in the middle of a decision.

#[cfg(feature = "tower")]
mod layers;
mod tenants;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaparray::flow::watch::WatchedState;
use leaparray::flow::{Ask, Decision, LimiterExt};
use leaparray::{Clock, Registry, RegistryConfig, Resource, Timestamp};
use leaparray_rules::{Caller, KeySource, RuleSet, Rules};

use super::file;

/// A clock that calls a closure at one of its readings: a change in the middle of a decision.
#[derive(Clone, Default)]
struct Hooked(Arc<Mutex<Option<Hook>>>);

struct Hook {
    readings_before: usize,
    call: Box<dyn FnOnce() + Send>,
}

impl Clock for Hooked {
    fn now(&self) -> Timestamp {
        let hook = self.0.lock().unwrap().take();
        match hook {
            Some(Hook { readings_before: 0, call }) => call(),
            Some(Hook { readings_before, call }) => {
                let hook = Hook { readings_before: readings_before - 1, call };
                *self.0.lock().unwrap() = Some(hook);
            }
            None => {}
        }
        Timestamp::from_secs(3_600)
    }
}

/// Rules, and the resource `a`. The next reading of their clock applies a version, in the middle of
/// a decision.
fn changed_in_a_decision(before: &RuleSet, after: RuleSet) -> (Rules<Hooked>, Resource<Hooked>) {
    let clock = Hooked::default();
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    let rules = Rules::new(Arc::new(registry));
    rules.apply(before);
    let resource = rules.registry().resource("a").unwrap();
    // A new context reads the clock.
    let _contexts = ["web", "batch"].map(|it| resource.in_context(it).unwrap());
    // From then on, the thread has the version, and the resource its place in it.
    assert!(
        rules.ask(&resource, &"first", &Ask::at(Timestamp::from_secs(3_600)).many(0)).is_admitted()
    );
    let changed = rules.clone();
    let call = Box::new(move || drop(changed.apply(&after)));
    *clock.0.lock().unwrap() = Some(Hook { readings_before: 0, call });
    (rules, resource)
}

/// A question that the change meets is decided by the rules of the new version and by its keys, and
/// counts at the rule of that version that refuses it, once.
#[test]
fn question_in_the_middle_of_a_change_is_decided_anew() {
    // Later than the clock by more than any lead, so that the bucket reads it.
    let ask = Ask::at(Timestamp::from_secs(1 << 30));
    let bucket = ("r", "limit = \"9 per hour, bursts of 9\"");
    let keyed = ("each", "key = \"client\"\nlimit = \"1 per hour, bursts of 1\"");
    let none = ("none", "limit = \"0 per hour\"");
    for before in [file(&[bucket]), file(&[bucket, ("more", "in_flight = 9")])] {
        let (rules, resource) = changed_in_a_decision(&before, file(&[keyed]));
        assert!(rules.ask(&resource, &"ann", &ask).is_admitted());
        assert_eq!(rules.status().version, 2, "the change came in between");
        let refusal = rules.ask(&resource, &"ann", &ask).refusal().expect("its permit is taken");
        assert_eq!(refusal.limiter(), Some("each"));
        assert!(rules.ask(&resource, &"bob", &ask).is_admitted());

        let (rules, resource) = changed_in_a_decision(&before, file(&[bucket, none]));
        let refusal = rules.ask(&resource, &"ann", &ask).refusal().expect("by the new version");
        assert_eq!(refusal.limiter(), Some("none"));
        assert_eq!(rules.status().refused, [(Arc::from("none"), 1)]);
    }
}

/// The new version has another limiter of the rule, which refuses the request by a peek beside the
/// bucket. The refusal counts at that limiter as one that was carried out, as at the rule.
#[test]
fn refusal_by_a_decision_made_anew_counts_among_those_that_are_enforced() {
    let ask = Ask::at(Timestamp::from_secs(1 << 30));
    let bucket = ("bucket", "limit = \"99 per hour, bursts of 99\"");
    let limit = "key = \"client\"\nin_flight = 2\nmode = \"enforce for 99.9999 % of keys\"";
    let (rules, resource) = changed_in_a_decision(
        &file(&[("flight", "in_flight = 11"), bucket]),
        file(&[bucket, ("flight", limit)]),
    );
    let refusal = rules.ask(&resource, &"ann", &ask.many(3)).refusal().expect("by the new version");
    assert_eq!(rules.status().version, 2, "the change came in between");
    assert_eq!(refusal.limiter(), Some("flight"));
    assert_eq!(rules.status().refused[..], [("flight".into(), 1)]);
    let watched = rules.registry().watched();
    let shadow = watched.iter().find_map(|it| match &it.state {
        WatchedState::Shadow { counts, .. } => Some(counts.enforced),
        _ => None,
    });
    assert_eq!(shadow, Some(1));
}

/// A rule in the shadow has let the request through by both versions.
#[test]
fn rule_in_the_shadow_counts_a_request_that_is_decided_anew_twice() {
    let ask = Ask::at(Timestamp::from_secs(1 << 30));
    let bucket = ("bucket", "limit = \"99 per hour, bursts of 99\"");
    let tried = ("tried", "limit = \"0 per hour\"\nmode = \"shadow\"");
    let (rules, resource) = changed_in_a_decision(
        &file(&[bucket, tried]),
        file(&[bucket, tried, ("flight", "in_flight = 1")]),
    );
    assert!(rules.ask(&resource, &"ann", &ask).is_admitted());
    assert_eq!(rules.status().version, 2, "the change came in between");
    let watched = rules.registry().watched();
    let shadow = watched.iter().find_map(|it| match &it.state {
        WatchedState::Shadow { counts, .. } => Some(counts.would_refuse),
        _ => None,
    });
    assert_eq!(shadow, Some(2));
}

/// No rule of the former version asks for the context, and the new one concerns only one context.
#[test]
fn request_in_a_context_is_decided_anew_by_the_rules_of_its_context() {
    let ask = Ask::at(Timestamp::from_secs(1 << 30));
    let bucket = ("r", "limit = \"9 per hour, bursts of 9\"");
    let batch = ("none", "only = { context = \"batch\" }\nlimit = \"0 per hour\"");
    for (context, refused_by) in [("batch", Some("none")), ("web", None)] {
        for by_limiter in [false, true] {
            let (rules, resource) = changed_in_a_decision(&file(&[bucket]), file(&[bucket, batch]));
            let handle = resource.in_context(context).unwrap();
            assert_eq!(rules.status().version, 1);
            let decision = if by_limiter {
                rules.limiter(&handle, &()).ask(&ask).map(drop)
            } else {
                rules.ask(&handle, &(), &ask).map(drop)
            };
            assert_eq!(rules.status().version, 2, "the change came in between");
            let refusal = decision.refusal().and_then(|it| it.limiter());
            assert_eq!(refusal, refused_by, "{context}, by a limiter: {by_limiter}");
        }
    }
}

/// Two rules that pace, a bucket, a limit in flight and a shadow decide before the last rule. After
/// the last one has refused, or the shadow has panicked, each has its permits back, once.
#[test]
fn permits_are_given_back_if_a_later_rule_refuses_or_panics() {
    let rule = |name: &str, resources: &str, limit: &str| {
        format!("[[rule]]\nname = \"{name}\"\nresource = {resources}\n{limit}\n")
    };
    let text = [
        rule("slow", r#"["a", "slow"]"#, "pace = \"5 per second\"\nmax_wait = \"1s\""),
        rule("fast", r#"["a", "fast"]"#, "pace = \"10 per second\"\nmax_wait = \"1s\""),
        rule("bucket", r#"["a", "c"]"#, "limit = \"3 per hour, bursts of 3\""),
        rule("flight", r#"["a", "c"]"#, "in_flight = 2"),
        // Its decision reads the clock.
        rule("shadow", r#""a""#, "limit = \"0 per hour\"\nmode = \"shadow\""),
        rule("last", r#"["a", "b"]"#, "limit = \"10 per hour, bursts of 10\""),
    ];
    let set = RuleSet::parse(&text.concat()).unwrap();
    let ask = Ask::at(Timestamp::from_secs(3_600));
    for panics in [true, false] {
        let clock = Hooked::default();
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let rules = Rules::new(Arc::new(registry));
        rules.apply(&set);
        let of = |name| rules.registry().resource(name).unwrap();
        let (a, b) = (of("a"), of("b"));
        // After that, only the shadow reads the clock.
        assert!(rules.ask(&a, &(), &ask).is_admitted());
        let (other, was_called) = (rules.clone(), Arc::new(AtomicBool::new(false)));
        let calls = Arc::clone(&was_called);
        let call = Box::new(move || {
            calls.store(true, Ordering::Relaxed);
            assert!(!panics, "in the middle of the decision");
            // Another request takes the tokens of the last rule, which has told that it admits.
            let all = Ask::at(Timestamp::from_secs(3_600)).many(9);
            assert!(other.ask(&b, &(), &all).is_admitted());
        });
        *clock.0.lock().unwrap() = Some(Hook { readings_before: 0, call });
        let decision = catch_unwind(AssertUnwindSafe(|| rules.ask(&a, &(), &ask)));
        assert!(was_called.load(Ordering::Relaxed));
        assert_eq!(decision.is_err(), panics);
        if let Ok(decision) = decision {
            let refusal = decision.refusal().expect("no tokens are left");
            assert_eq!(refusal.limiter(), Some("last"));
        }
        let waits = ["slow", "fast"].map(|name| rules.ask(&of(name), &(), &ask).wait());
        assert_eq!(waits, [200, 100].map(Duration::from_millis), "panics: {panics}");
        let c = of("c");
        let permits = [2, 1].map(|tokens| rules.ask(&c, &(), &ask.many(tokens)));
        assert_eq!(permits.map(|it| it.is_admitted()), [true, false], "panics: {panics}");
    }
}

/// A bucket and a limit in flight decide before a bucket, with or without a key. Another
/// request is faster there, or the clock panics: each of the others has its permits back, once.
#[test]
fn permits_of_frequent_rules_are_given_back_if_the_last_one_has_none_left() {
    let rule = |name: &str, resources: &str, limit: &str| {
        format!("[[rule]]\nname = \"{name}\"\nresource = {resources}\n{limit}\n")
    };
    let ask = Ask::at(Timestamp::from_secs(3_600));
    for (panics, key) in
        [(true, ""), (false, ""), (true, "key = \"client\"\n"), (false, "key = \"client\"\n")]
    {
        let text = [
            rule("bucket", r#"["a", "c"]"#, "limit = \"4 per hour, bursts of 4\""),
            rule("flight", r#"["a", "c"]"#, "in_flight = 2"),
            rule("last", r#"["a", "b"]"#, &format!("{key}limit = \"9 per hour, bursts of 9\"")),
        ];
        let set = RuleSet::parse(&text.concat()).unwrap();
        // The readings of the clock before the last rule decides, and all others.
        let mut was_last = false;
        for readings_before in 0..16 {
            let clock = Hooked::default();
            let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
            let rules = Rules::new(Arc::new(registry));
            rules.apply(&set);
            let of = |name| rules.registry().resource(name).unwrap();
            let (a, b, c) = (of("a"), of("b"), of("c"));
            // From then on, the bucket does not read the clock. The last one still does.
            assert!(rules.ask(&c, &"ann", &ask).is_admitted());
            // From then on, the resource has its place.
            assert_eq!(rules.limiter(&a, &"ann").names().count(), 3);
            let (other, was_called) = (rules.clone(), Arc::new(AtomicBool::new(false)));
            let calls = Arc::clone(&was_called);
            let call = Box::new(move || {
                calls.store(true, Ordering::Relaxed);
                assert!(!panics, "in the middle of the decision");
                drop(other.ask(&b, &"ann", &Ask::at(Timestamp::from_secs(3_600)).many(9)));
            });
            *clock.0.lock().unwrap() = Some(Hook { readings_before, call });
            let decision = catch_unwind(AssertUnwindSafe(|| rules.ask(&a, &"ann", &ask)));
            if !was_called.load(Ordering::Relaxed) {
                break;
            }
            *clock.0.lock().unwrap() = None;
            let refused_by =
                decision.as_ref().ok().map(|it| it.refusal().and_then(|it| it.limiter()));
            was_last |= refused_by == Some(Some("last")) || panics;
            if refused_by == Some(Some("last")) {
                assert_eq!(*rules.status().refused, [("last".into(), 1)], "it is counted once");
            }
            let is_admitted = decision.as_ref().is_ok_and(Decision::is_admitted);
            drop(decision);
            if is_admitted {
                continue;
            }
            let permits = [2, 1, 1].map(|tokens| rules.ask(&c, &(), &ask.many(tokens)));
            let admitted = permits.each_ref().map(Decision::is_admitted);
            assert_eq!(admitted, [true, false, false], "panics: {panics}, {readings_before}");
            drop(permits);
            let one = [(); 2].map(|()| rules.ask(&c, &(), &ask).is_admitted());
            assert_eq!(one, [true, false], "panics: {panics}, {key:?}, {readings_before}");
        }
        assert!(was_last, "the last rule decides after a reading of the clock");
    }
}

/// A pace makes a request wait for another one that was faster. The pace is not asked twice: a key
/// cannot give its time back, nor can a request that came later than its clock.
#[test]
fn frequent_rules_are_asked_once_if_the_last_one_makes_the_request_wait() {
    let rule = |name: &str, resources: &str, limit: &str| {
        format!("[[rule]]\nname = \"{name}\"\nresource = {resources}\n{limit}\n")
    };
    let times = [3_600, 1 << 30].map(|it| Ask::at(Timestamp::from_secs(it)));
    for (ask, key) in times.iter().flat_map(|ask| ["", "key = \"client\"\n"].map(|it| (ask, it))) {
        let text = [
            rule("bucket", r#"["a", "c"]"#, "limit = \"3 per hour, bursts of 3\""),
            rule("flight", r#"["a", "c"]"#, "in_flight = 2"),
            rule(
                "last",
                r#"["a", "b"]"#,
                &format!("{key}pace = \"10 per second\"\nmax_wait = \"9s\""),
            ),
        ];
        let set = RuleSet::parse(&text.concat()).unwrap();
        let mut waits = Vec::new();
        for readings_before in 0..16 {
            let clock = Hooked::default();
            let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
            let rules = Rules::new(Arc::new(registry));
            rules.apply(&set);
            let [a, b, c] = ["a", "b", "c"].map(|it| rules.registry().resource(it).unwrap());
            assert!(rules.ask(&c, &"ann", ask).is_admitted());
            assert_eq!(rules.limiter(&a, &"ann").names().count(), 3);
            let (other, was_called) = (rules.clone(), Arc::new(AtomicBool::new(false)));
            let (calls, at_b, at) = (Arc::clone(&was_called), b.clone(), ask.now());
            let call = Box::new(move || {
                calls.store(true, Ordering::Relaxed);
                drop(other.ask(&at_b, &"ann", &Ask::at(at)));
            });
            *clock.0.lock().unwrap() = Some(Hook { readings_before, call });
            let decision = rules.ask(&a, &"ann", ask);
            if !was_called.load(Ordering::Relaxed) {
                break;
            }
            waits.push(decision.wait());
            let third = rules.ask(&b, &"ann", ask).wait();
            assert_eq!(third, Duration::from_millis(200), "{key:?}, {readings_before}, {ask:?}");
            let flights = [(); 2].map(|()| rules.ask(&c, &(), &ask.many(1)));
            let admitted = flights.each_ref().map(Decision::is_admitted);
            assert_eq!(admitted, [true, false], "{key:?}, {readings_before}, {ask:?}");
            drop((decision, flights));
            assert!(rules.ask(&c, &(), ask).is_refused(), "three tokens are taken");
        }
        assert!(waits.contains(&Duration::from_millis(100)), "{key:?}, {ask:?}");
    }
}

/// A bucket cannot give back the tokens of a request that came later than its clock: it is not
/// asked for any, since another rule would refuse the request.
#[test]
fn request_that_one_of_the_frequent_rules_refuses_charges_no_other() {
    for key in ["", "key = \"client\"\n"] {
        let rule = |name: &str, resources: &str, limit: &str| {
            format!("[[rule]]\nname = \"{name}\"\nresource = {resources}\n{limit}\n")
        };
        let text = [
            rule("bucket", r#"["a", "c"]"#, "limit = \"3 per hour, bursts of 3\""),
            rule("last", r#""a""#, &format!("{key}limit = \"1 per hour, bursts of 1\"")),
        ];
        let registry = Registry::with_clock(RegistryConfig::default(), Hooked::default());
        let rules = Rules::new(Arc::new(registry));
        rules.apply(&RuleSet::parse(&text.concat()).unwrap());
        let [a, c] = ["a", "c"].map(|it| rules.registry().resource(it).unwrap());
        let late = Ask::at(Timestamp::from_secs(1 << 30));
        let first = [(); 9].map(|()| rules.ask(&a, &"ann", &late).is_admitted());
        assert_eq!(first.iter().filter(|it| **it).count(), 1);
        assert!(rules.ask(&c, &(), &late.many(2)).is_admitted(), "{key:?}: two are left");
    }
}

/// A caller that changes the rules when it is asked for its key, after it has decided by them.
struct Changing<'a> {
    rules: &'a Rules<Hooked>,
    resource: &'a Resource<Hooked>,
    version: RuleSet,
}

impl Caller for Changing<'_> {
    type Key = &'static str;

    fn key(&self, _source: &KeySource) -> Option<&'static str> {
        let ask = Ask::at(Timestamp::from_secs(3_600));
        self.rules.ask(self.resource, &"inner", &ask).refusal();
        self.rules.apply(&self.version);
        Some("outer")
    }
}

/// A caller that changes the rules when it is first asked for its key.
struct Replaces<'a>(&'a Rules<Hooked>, Mutex<Option<RuleSet>>);

impl Caller for Replaces<'_> {
    type Key = &'static str;

    fn key(&self, _source: &KeySource) -> Option<&'static str> {
        let version = self.1.lock().unwrap().take();
        version.map(|it| self.0.apply(&it));
        None
    }
}

/// A pace makes the request wait that the change meets. The request is taken back, and the pace and
/// the window are charged once.
#[test]
fn request_that_waits_is_charged_once_when_it_is_decided_anew() {
    let rules =
        Rules::new(Arc::new(Registry::with_clock(RegistryConfig::default(), Hooked::default())));
    let pace = ("pace", "pace = \"10 per second\"\nmax_wait = \"9s\"");
    let window = ("window", "limit = \"5 per hour\"");
    let keyed = ("each", "key = \"client\"\nin_flight = 9");
    rules.apply(&file(&[pace, window, keyed]));
    let resource = rules.registry().resource("a").unwrap();
    let ask = Ask::at(Timestamp::from_secs(3_600));
    assert!(rules.ask(&resource, &(), &ask).is_admitted());
    let replaces = Replaces(&rules, Mutex::new(Some(file(&[pace, window]))));
    let decision = rules.ask(&resource, &replaces, &ask.many(3));
    assert_eq!(rules.status().version, 2, "the change came in between");
    assert_eq!(decision.wait(), Duration::from_millis(300));
    assert_eq!(rules.ask(&resource, &(), &ask).wait(), Duration::from_millis(400));
    let refusal = rules.ask(&resource, &(), &ask).refusal().expect("five are charged");
    assert_eq!(refusal.limiter(), Some("window"));
}

#[test]
fn caller_may_decide_and_change_the_rules_when_it_is_asked_for_its_key() {
    let rules =
        Rules::new(Arc::new(Registry::with_clock(RegistryConfig::default(), Hooked::default())));
    let keyed = ("each", "key = \"client\"\nlimit = \"1 per hour, bursts of 1\"");
    rules.apply(&file(&[keyed]));
    let resource = rules.registry().resource("a").unwrap();
    let ask = Ask::at(Timestamp::from_secs(3_600));
    assert!(rules.ask(&resource, &"first", &ask).is_admitted());
    let version = file(&[keyed, ("none", "limit = \"0 per hour\"")]);
    let caller = Changing { rules: &rules, resource: &resource, version };
    let refusal = rules.ask(&resource, &caller, &ask).refusal().expect("by the new version");
    assert_eq!(refusal.limiter(), Some("none"));
    rules.apply(&file(&[keyed]));
    let decisions = ["inner", "first", "other"].map(|it| rules.ask(&resource, &it, &ask));
    assert_eq!(decisions.map(|it| it.is_admitted()), [false, false, true]);
}

/// The first version and the last one have a limit of 1, which is in use. The one in between has a
/// limit of 2, and refuses each request by another rule.
#[test]
fn number_of_a_version_in_between_admits_no_request() {
    let mut was_called = false;
    for readings_before in 0..6 {
        let clock = Hooked::default();
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let rules = Rules::new(Arc::new(registry));
        let reads_clock = ("c", "limit = \"9 per hour, bursts of 9\"");
        let one = file(&[("r", "in_flight = 1"), reads_clock]);
        rules.apply(&one);
        let resource = rules.registry().resource("a").unwrap();
        let _held = rules.try_enter("a", ()).unwrap();
        let admission = rules.limiter(&resource, &());
        let none = ("none", "limit = \"0 per hour\"");
        rules.apply(&file(&[("r", "in_flight = 2"), reads_clock, none]));
        let call = {
            let rules = rules.clone();
            Box::new(move || drop(rules.apply(&one)))
        };
        *clock.0.lock().unwrap() = Some(Hook { readings_before, call });
        // Later than the clock by more than any lead, so that the bucket reads it.
        let ask = Ask::at(Timestamp::from_secs(1 << 30));
        assert!(admission.ask(&ask).is_refused(), "after {readings_before} readings");
        was_called |= readings_before > 0 && clock.0.lock().unwrap().is_none();
        // The hook has a handle to the rules, whose registry has the clock.
        clock.0.lock().unwrap().take();
    }
    assert!(was_called, "the bucket reads the clock more than once");
}
