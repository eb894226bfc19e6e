//! The rules as a page lists them.

use std::sync::Arc;
use std::time::Duration;

use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_rules::{Follow, RuleSet, Rules};
use leaparray_web::format::RuleSourceState;

const RULES: &str = r#"
[[rule]]
name = "orders"
resource = "orders"
limit = "3 per minute, bursts of 3"

[[rule]]
name = "backend"
resource = "orders"
breaker = { failures = "2 in a row", wait = "5s" }

[[rule]]
name = "all"
resource = "ord*"
key = "client"
limit = "1 per minute"
mode = "shadow"
"#;

fn rules() -> (Rules<ManualClock>, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_secs(600));
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    (Rules::new(Arc::new(registry)), clock)
}

#[test]
fn list_has_mode_state_and_refusals_of_each_rule() {
    let (rules, clock) = rules();
    rules.apply(&RuleSet::parse(RULES).unwrap());
    let page = rules.on_page();
    assert!(
        page().unwrap().rules.iter().all(|it| it.refused.is_none()),
        "there are no counts before"
    );
    clock.advance(Duration::from_secs(9));
    for _ in 0..2 {
        rules.try_enter("orders", "10.0.0.7").unwrap().success();
    }
    rules.try_enter("orders", "10.0.0.7").unwrap().exception();
    rules.try_enter("orders", "10.0.0.7").unwrap_err();
    let list = page().unwrap();
    assert_eq!((list.version, list.changed_at, list.left_out), (1, Some(600.0), 0));
    assert_eq!((list.source, list.state), (None, RuleSourceState::Unknown));
    let rows: Vec<_> = list
        .rules
        .iter()
        .map(|it| [&*it.name, &it.resource, &it.limit, &it.mode, &it.state])
        .collect();
    let breaker = rows[1][2];
    assert!(breaker.contains("2 in a row"), "{breaker}");
    assert_eq!(
        rows,
        [
            ["orders", "orders", "limit = \"3 per minute, bursts of 3\"", "enforce", "0 of 3 left"],
            ["backend", "orders", breaker, "enforce", "closed"],
            [
                "all",
                "ord*",
                "limit = \"1 per minute\", by client",
                "shadow",
                "1 keys, would have refused 2"
            ],
        ]
    );
    let refused: Vec<_> = list.rules.iter().map(|it| it.refused).collect();
    assert_eq!(refused, [Some(0.25), Some(0.0), Some(0.0)]);
    assert_eq!(rules.status().refused, [(Arc::from("orders"), 1)]);
    // A breaker that has opened refuses, too. A minute later, the requests before are over.
    clock.advance(Duration::from_secs(51));
    page().unwrap();
    rules.try_enter("orders", "10.0.0.7").unwrap().exception();
    for _ in 0..6 {
        rules.try_enter("orders", "10.0.0.7").unwrap_err();
    }
    let refused = |list: &leaparray_web::format::RuleList| {
        list.rules.iter().map(|it| it.refused).collect::<Vec<_>>()
    };
    clock.advance(Duration::from_secs(1));
    assert_eq!(refused(&page().unwrap()), [Some(1.0 / 11.0), Some(6.0 / 11.0), Some(0.0)]);
    clock.advance(Duration::from_secs(59));
    assert_eq!(refused(&page().unwrap()), [Some(0.0), Some(6.0 / 7.0), Some(0.0)]);
    clock.advance(Duration::from_secs(90));
    assert_eq!(refused(&page().unwrap()), [None; 3], "the counts before are too old");
    // A page in the background asks seldom.
    for _ in 0..6 {
        clock.advance(Duration::from_secs(25));
        rules.try_enter("orders", "10.0.0.7").unwrap().success();
        assert_eq!(refused(&page().unwrap()), [Some(0.0); 3]);
    }
}

#[test]
fn list_tells_why_the_source_is_away_or_wrong() {
    for (text, state, why) in [
        (None, RuleSourceState::Away, "no text"),
        (Some("rules = 1"), RuleSourceState::Wrong, "unknown key"),
        (Some("rule = []"), RuleSourceState::Good, ""),
    ] {
        let (rules, _) = rules();
        let read = move || text.map(str::to_owned).ok_or("no text");
        rules.follow(Follow::source("the test", read).may_be_away()).unwrap();
        let list = rules.on_page()().unwrap();
        assert_eq!((list.source.as_deref(), list.state), (Some("the test"), state));
        assert_eq!(list.since, Some(600.0));
        assert!(list.why.unwrap_or_default().contains(why), "{state:?}");
    }
}

#[test]
fn list_keeps_no_handle_to_the_rules() {
    let (rules, _) = rules();
    let list = rules.on_page();
    assert!(list().is_some());
    drop(rules);
    assert!(list().is_none());
}
