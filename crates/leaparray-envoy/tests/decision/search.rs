//! The limit that concerns a descriptor, its state and its counts.

use std::time::Duration;

use leaparray::{Clock, ManualClock, MetricEvent, Timestamp};
use leaparray_envoy::config::Config;
use leaparray_envoy::service::{By, Code, Fallback, Request, Settings};

use crate::world::{ask, entries, limit, remaining, service, service_with};

#[test]
fn most_specific_descriptor_is_found() {
    let (service, _) = service(
        "
domain: d
descriptors:
  - { key: a, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: a, value: v, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: a, value: fo*, rate_limit: { unit: minute, requests_per_unit: 3 } }
  - { key: a, value: foo*, rate_limit: { unit: minute, requests_per_unit: 4 } }
  - { key: a, value: foobar, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - key: b
    value: x
    descriptors:
      - { key: c, rate_limit: { unit: minute, requests_per_unit: 6 } }
  - key: b
    rate_limit: { unit: minute, requests_per_unit: 7 }
    descriptors:
      - { key: d, rate_limit: { unit: minute, requests_per_unit: 8 } }
  - { key: open, rate_limit: { unlimited: true } }
",
    );
    for (of, expected) in [
        (&[("a", "other")][..], Some(1)),
        (&[("a", "")], Some(1)),
        (&[("a", "v")], Some(2)),
        // The first of the file, and not the longest.
        (&[("a", "foo")], Some(3)),
        (&[("a", "foobar")], Some(5)),
        (&[("a_v", "")], None),
        // More entries than descriptors, and fewer.
        (&[("a", "v"), ("c", "1")], None),
        (&[("b", "x")], None),
        (&[("b", "x"), ("c", "1")], Some(6)),
        (&[("b", "y")], Some(7)),
        // There is no way back from `b_x`.
        (&[("b", "x"), ("d", "1")], None),
        (&[("b", "y"), ("d", "1")], Some(8)),
        (&[], None),
    ] {
        assert_eq!(limit(&service, of), expected, "{of:?}");
    }
    let open = ask(&service, [entries(&[("open", "1")])]);
    let status = &open.statuses()[0];
    assert_eq!((status.code, status.remaining, &status.limit), (Code::Ok, u64::MAX, &None));
}

#[test]
fn unknown_domain_limits_nothing() {
    let (service, _) = service("domain: d");
    let request = Request::new("e", [entries(&[("a", "v")])]);
    let decision = service.decide_at(&request, service.now());
    assert!(decision.unknown_domain && !decision.over);
    assert_eq!(decision.statuses().len(), 1);
    assert!(!ask(&service, [entries(&[("a", "v")])]).unknown_domain);
}

#[test]
fn each_list_of_values_has_its_own_limit() {
    let (service, _) = service(
        "
domain: d
descriptors:
  - key: a
    descriptors:
      - { key: b, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: w, value: p*, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: s, value: p*, share_threshold: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
",
    );
    // Without their lengths, the values of the last two would be the same text.
    for (a, b) in [("1", "2"), ("1", "3"), ("x", "yz"), ("xy", "z")] {
        let of = [("a", a), ("b", b)];
        assert!(!ask(&service, [entries(&of)]).over && ask(&service, [entries(&of)]).over);
    }
    assert!(!ask(&service, [entries(&[("w", "p1")])]).over);
    assert!(!ask(&service, [entries(&[("w", "p2")])]).over);
    assert!(!ask(&service, [entries(&[("s", "p1")])]).over);
    assert!(ask(&service, [entries(&[("s", "p2")])]).over, "they share the limit");
}

#[test]
fn change_keeps_the_state_of_limits_that_stay() {
    let yaml = |n, unit, extra| {
        format!(
            "domain: d\ndescriptors:\n  - {{ key: one, value: x, rate_limit: {{ unit: {unit}, requests_per_unit: {n} }} }}\n  \
             - {{ key: user, rate_limit: {{ unit: {unit}, requests_per_unit: {n} }} }}\n{extra}"
        )
    };
    let (service, _) = service(&yaml(3, "minute", ""));
    let keys = [[("one", "x")], [("user", "ann")]];
    for key in &keys {
        assert!(!ask(&service, [entries(key).with_hits(2)]).over);
    }
    let set = |text: String| service.reconfigure(&Config::from_yaml(&text).unwrap());
    set(yaml(5, "minute", "  - { key: new }"));
    assert_eq!(keys.map(|key| remaining(&service, &key)), [3, 3], "of 5");
    set(yaml(1, "minute", ""));
    assert_eq!(keys.map(|key| remaining(&service, &key)), [0, 0]);
    assert!(keys.iter().all(|key| ask(&service, [entries(key)]).over));
    // Gone, and back.
    set("domain: d".to_owned());
    assert_eq!(limit(&service, &keys[0]), None);
    set(yaml(3, "minute", ""));
    assert_eq!(keys.map(|key| remaining(&service, &key)), [1, 1]);
    // Another unit is another limit.
    set(yaml(3, "hour", ""));
    assert_eq!(keys.map(|key| remaining(&service, &key)), [3, 3]);
}

#[test]
fn full_table_refuses_or_admits_by_the_fallback() {
    let yaml =
        "domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, requests_per_unit: 1 } }]";
    for (fallback, is_over) in [(Fallback::Closed, true), (Fallback::Open, false)] {
        let mut settings = Settings::default();
        (settings.max_keys, settings.fallback) = (100, fallback);
        let (service, clock) = service_with(yaml, settings);
        let of = |key: usize| ask(&service, [entries(&[("a", &key.to_string())])]);
        let known = (0..1_000).filter(|key| of(*key).statuses()[0].by == By::Limit).count();
        assert_eq!((known, service.keys()), (100, 100));
        let without_room = of(1_000_000);
        assert_eq!(without_room.over, is_over);
        assert_eq!(without_room.statuses()[0].by, By::NoRoom);
        // A key that is whole again gives its place up.
        clock.advance(Duration::from_secs(62));
        assert_eq!(of(1_000_000).statuses()[0].by, By::Limit);
    }
}

#[test]
fn rules_tell_their_paths() {
    let (service, _) = service(
        "
domain: d
descriptors:
  - key: a
    value: v
    descriptors:
      - { key: b, quota_mode: true, metadata: 1, rate_limit: { unit: day, requests_per_unit: 1 } }
",
    );
    let decision = ask(&service, [entries(&[("a", "v"), ("b", "w")])]);
    let rule = service.rule(decision.statuses()[0].rule.unwrap()).unwrap();
    assert_eq!((rule.path.as_str(), rule.is_quota), ("d.a_v.b", true));
    assert_eq!(service.rules(), [rule]);
    assert!(
        service.now() >= Timestamp::MIN && ManualClock::new(Timestamp::MIN).now() == Timestamp::MIN
    );
}

#[test]
fn hits_are_counted_by_the_names_of_the_reference_server() {
    let (service, _) = service(
        "
domain: d
descriptors:
  - { key: all, value: x, rate_limit: { unit: minute, requests_per_unit: 3 } }
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: own, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - key: first
    value_to_metric: true
    descriptors:
      - { key: second, value: s*, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - { key: s, value: p*, share_threshold: true, detailed_metric: true,
      rate_limit: { unit: minute, requests_per_unit: 9 } }
",
    );
    let counts = |name: &str| {
        let node = service.registry().get(name).unwrap_or_else(|| panic!("{name}"));
        let lifetime = node.lifetime();
        (lifetime.sum(MetricEvent::Pass), lifetime.sum(MetricEvent::Block))
    };
    for _ in 0..2 {
        ask(&service, [entries(&[("all", "x")]), entries(&[("user", "ann")]).with_hits(2)]);
    }
    // The limit of all was within, and not charged for the second request.
    assert_eq!((counts("d.all_x"), counts("d.user")), ((1, 0), (2, 2)));
    ask(&service, [entries(&[("own", "o")])]);
    ask(&service, [entries(&[("first", "f"), ("second", "s1")])]);
    ask(&service, [entries(&[("s", "p1")])]);
    for name in ["d.own_o", "d.first_f.second_s*", "d.s_p*"] {
        assert_eq!(counts(name), (1, 0), "{name}");
    }
}
