//! Limiters that replace another one, and their state when they come back.

use std::time::Duration;

use leaparray_rules::RuleSet;

use super::{admitted, file, names, rules};

#[test]
fn breaker_that_replaces_another_limiter_has_counted_no_call() {
    for before in ["in_flight = 3", "limit = \"3 per hour\"", "breaker = \"adaptive\""] {
        let (_, rules) = rules();
        rules.apply(&file(&[("r", before)]));
        let breaker = "breaker = { failures = \"2 in a row\", wait = \"5s\" }";
        assert_eq!(names(&rules.apply(&file(&[("r", breaker)])))[2], ["r"], "{before}");
        rules.try_enter("a", ()).expect("it is closed").exception();
        rules.try_enter("a", ()).expect("one call has failed").exception();
        assert!(rules.try_enter("a", ()).is_err(), "two calls have failed");
    }
}

#[test]
fn breaker_of_a_key_opens() {
    for breaker in ["{ failures = \"2 in a row\" }", "{ failures = \"50 % of 2\" }"] {
        let (_, rules) = rules();
        rules.apply(&file(&[("r", &format!("key = \"client\"\nbreaker = {breaker}"))]));
        for _ in 0..2 {
            rules.try_enter("a", "ann").expect("it is closed").exception();
        }
        assert!(rules.try_enter("a", "ann").is_err(), "{breaker}");
        assert!(rules.try_enter("a", "bob").is_ok(), "{breaker}");
    }
}

#[test]
fn adaptive_breaker_of_a_key_refuses() {
    let (_, rules) = rules();
    rules.apply(&file(&[("r", "key = \"client\"\nbreaker = { k = 1.0, min_requests = 1 }")]));
    let refused = (0..200).filter(|_| match rules.try_enter("a", "ann") {
        Ok(entry) => {
            entry.exception();
            false
        }
        Err(_) => true,
    });
    assert!(refused.count() > 50, "all requests that were admitted have failed");
}

/// In between, the rule has other limiters, is removed, and the same file is applied again.
#[test]
fn former_limiter_takes_its_state_up_again_after_any_detour() {
    let limit = file(&[("r", "key = \"client\"\nlimit = \"3 per day, bursts of 3\"")]);
    let others = ["in_flight = 9", "limit = \"9 per hour\""].map(|it| file(&[("r", it)]));
    let [one, other] = &others;
    let none = &file(&[("other", "in_flight = 99")]);
    for detour in [[one, one, one], [one, other, one], [one, none, none], [none, one, other]] {
        let (clock, rules) = rules();
        rules.apply(&limit);
        assert_eq!(admitted(&rules, 2), 2);
        for version in detour {
            clock.advance(Duration::from_secs(1_000));
            rules.apply(version);
        }
        rules.apply(&limit);
        assert_eq!(admitted(&rules, 9), 1);
    }
}

#[test]
fn former_limiter_is_forgotten_after_an_hour() {
    let limit = file(&[("r", "key = \"client\"\nlimit = \"3 per day, bursts of 3\"")]);
    let other = file(&[("r", "in_flight = 9")]);
    let (clock, rules) = rules();
    rules.apply(&limit);
    assert_eq!(admitted(&rules, 2), 2);
    rules.apply(&other);
    clock.advance(Duration::from_secs(3_600));
    rules.apply(&limit);
    assert_eq!(admitted(&rules, 9), 3);
}

#[test]
fn former_limiters_of_a_name_are_bounded() {
    let limit =
        |hours: u32| file(&[("r", &format!("key = \"client\"\nlimit = \"3 per {hours}h\""))]);
    let (_, rules) = rules();
    for hours in 1..=40 {
        rules.apply(&limit(hours));
        if [1, 20].contains(&hours) {
            assert_eq!(admitted(&rules, 9), 3);
        }
    }
    rules.apply(&limit(1));
    assert_eq!(admitted(&rules, 9), 3, "39 were replaced, and 32 are kept");
    rules.apply(&limit(20));
    assert_eq!(admitted(&rules, 9), 0);
}

/// The 16,384 rules that were removed last are kept.
#[test]
fn former_limiters_of_all_names_are_bounded() {
    let rule = |name: &str, limit: &str| {
        format!("[[rule]]\nname = \"{name}\"\nresource = \"{name}\"\n{limit}\n")
    };
    let read = |text: &str| RuleSet::parse(text).unwrap();
    let used = |name: &str| read(&rule(name, "limit = \"1 per day\""));
    let others: String = (0..16_383).map(|it| rule(&it.to_string(), "in_flight = 1")).collect();
    let (first, second, others) = (used("first"), used("second"), read(&others));
    let (clock, rules) = rules();
    // Two rules, each in force alone, and then the others: those and one of the two are kept.
    for (version, name) in [(&first, Some("first")), (&second, Some("second")), (&others, None)] {
        rules.apply(version);
        if let Some(name) = name {
            assert!(rules.try_enter(name, ()).is_ok());
        }
        clock.advance(Duration::from_secs(1));
    }
    rules.apply(&RuleSet::default());
    rules.apply(&second);
    assert!(rules.try_enter("second", ()).is_err(), "it is kept");
    rules.apply(&first);
    assert!(rules.try_enter("first", ()).is_ok(), "it was forgotten");
}

/// Permits stay charged beyond a lowered limit, and beyond the limit of the new window.
#[test]
fn permits_beyond_a_limit_stay_charged_when_the_limiter_is_replaced() {
    let (_, rules) = rules();
    rules.apply(&file(&[("r", "limit = \"9 per hour\"")]));
    assert_eq!(admitted(&rules, 7), 7);
    rules.apply(&file(&[("r", "limit = \"5 per hour\"")]));
    rules.apply(&file(&[("r", "limit = \"8 per 2h\"")]));
    assert_eq!(admitted(&rules, 9), 1, "seven of eight are charged");
    rules.apply(&file(&[("r", "limit = \"2 per 3h\"")]));
    assert_eq!(admitted(&rules, 9), 0);
    rules.apply(&file(&[("r", "limit = \"10 per 3h\"")]));
    assert_eq!(admitted(&rules, 9), 2, "eight of ten are charged");
}

/// A bucket that comes back with fewer tokens is charged with what the limiter between has charged:
/// these are taken from the fewer ones.
#[test]
fn bucket_that_comes_back_smaller_is_charged() {
    let (_, rules) = rules();
    rules.apply(&file(&[("r", "limit = \"6 per hour, bursts of 6\"")]));
    rules.apply(&file(&[("r", "limit = \"9 per hour\"")]));
    assert_eq!(admitted(&rules, 3), 3);
    rules.apply(&file(&[("r", "limit = \"6 per hour, bursts of 4\"")]));
    assert_eq!(admitted(&rules, 9), 1, "three of four are charged");
}
