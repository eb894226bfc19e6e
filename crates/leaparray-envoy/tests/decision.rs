//! Decisions in memory.

use std::time::Duration;

use leaparray::{Clock, ManualClock, MetricEvent, Timestamp};
use leaparray_envoy::config::{Config, Unit};
use leaparray_envoy::service::{
    By, Charging, Code, Decision, Descriptor, Fallback, Quota, Request, Service, Settings, Store,
};

type TestService = Service<ManualClock>;

fn service_with(yaml: &str, settings: Settings) -> (TestService, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let config = Config::from_yaml(yaml).unwrap();
    (Service::with_settings(&config, &Store::Memory, settings, clock.clone()), clock)
}

fn service(yaml: &str) -> (TestService, ManualClock) {
    service_with(yaml, Settings::default())
}

fn entries(entries: &[(&str, &str)]) -> Descriptor {
    Descriptor::new(entries.iter().copied())
}

fn ask<const N: usize>(service: &TestService, descriptors: [Descriptor; N]) -> Decision {
    service.decide_at(&Request::new("d", descriptors), service.now())
}

/// Returns the limit that concerns the entries; `None` if none does.
fn limit(service: &TestService, of: &[(&str, &str)]) -> Option<u32> {
    let decision = ask(service, [entries(of).with_hits(0)]);
    decision.statuses()[0].limit.as_ref().map(|limit| limit.requests_per_unit)
}

/// Returns the hits that are left.
fn remaining(service: &TestService, of: &[(&str, &str)]) -> u64 {
    ask(service, [entries(of).with_hits(0)]).statuses()[0].remaining
}

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
fn limit_holds_in_any_interval() {
    let (service, clock) = service(
        "domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, requests_per_unit: 10 } }]",
    );
    // The last second of a minute, and the first one of the next.
    clock.advance(Duration::from_secs(59));
    let a = || ask(&service, [entries(&[("a", "v")])]);
    assert_eq!((0..20).filter(|_| !a().over).count(), 10);
    clock.advance(Duration::from_secs(2));
    let refused = a();
    assert!(refused.over, "a window that begins with the minute would admit it");
    let status = &refused.statuses()[0];
    let limit = status.limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, status.remaining), (10, Unit::Minute, 0));
    clock.advance(status.until_reset.unwrap());
    assert_eq!((0..20).filter(|_| !a().over).count(), 10);
}

const TWO: &str = "
domain: d
descriptors:
  - { key: all, value: x, rate_limit: { unit: minute, requests_per_unit: 3 } }
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 2 } }
";

#[test]
fn refused_request_is_charged_to_no_limit() {
    let (service, _) = service(TWO);
    let both = |user, hits| {
        ask(&service, [entries(&[("all", "x")]), entries(&[("user", user)]).with_hits(hits)])
    };
    assert!(!both("ann", 2).over);
    let refused = both("ann", 1);
    assert!(refused.over);
    let codes = refused.statuses().iter().map(|it| (it.code, it.remaining));
    assert!(codes.eq([(Code::Ok, 2), (Code::OverLimit, 0)]));
    assert_eq!(remaining(&service, &[("all", "x")]), 2);
    // One limit twice: the second descriptor finds what the first one has left.
    let twice = || ask(&service, [(); 2].map(|()| entries(&[("user", "bob")]).with_hits(2)));
    assert!(twice().over);
    assert_eq!(remaining(&service, &[("user", "bob")]), 2);
}

#[test]
fn charging_each_is_that_of_the_reference_server() {
    let mut settings = Settings::default();
    settings.charging = Charging::Each;
    let (service, _) = service_with(TWO, settings);
    let both = |hits| {
        ask(&service, [entries(&[("all", "x")]), entries(&[("user", "ann")]).with_hits(hits)])
    };
    assert!(!both(1).over);
    assert!(both(5).over);
    assert_eq!(remaining(&service, &[("all", "x")]), 1);
    // The rest is charged, so that hits that are told after the fact count.
    assert_eq!(remaining(&service, &[("user", "ann")]), 0);
    assert!(ask(&service, [entries(&[("user", "ann")]).with_hits(0)]).over);
}

#[test]
fn shadow_refuses_nothing_and_is_not_over() {
    let (service, _) = service(
        "
domain: d
descriptors:
  - { key: s, value: x, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: e, value: x, rate_limit: { unit: minute, requests_per_unit: 2 } }
",
    );
    let both = || ask(&service, [entries(&[("s", "x")]), entries(&[("e", "x")])]);
    assert_eq!(both().statuses()[0].by, By::Limit);
    let second = both();
    assert!(!second.over);
    assert_eq!((second.statuses()[0].code, second.statuses()[0].by), (Code::Ok, By::Shadow));
    assert_eq!(second.statuses()[1].remaining, 0, "the enforced limit is charged");
    assert!(both().over);
}

#[test]
fn quotas_refuse_together() {
    let (service, _) = service(
        "
domain: d
descriptors:
  - { key: q, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - key: backend_name
    descriptors:
      - { key: q, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
",
    );
    let both = || ask(&service, [entries(&[("q", "a")]), entries(&[("q", "b")])]);
    assert!(!ask(&service, [entries(&[("q", "a")])]).over);
    let one_left = both();
    assert!(!one_left.over, "b has a quota left");
    assert_eq!(one_left.statuses()[0].code, Code::OverLimit);
    assert!(both().over);
    // The quotas of one backend are over if one of them is.
    let of =
        |backend, value, hits| entries(&[("backend_name", backend), ("q", value)]).with_hits(hits);
    assert!(!ask(&service, [of("m", "tenant", 2)]).over);
    assert!(ask(&service, [of("m", "tenant", 1), of("m", "all", 1)]).over);
    assert!(!ask(&service, [of("m", "tenant", 1), of("n", "all", 1)]).over);
}

#[test]
fn replaced_limit_does_not_count() {
    let (service, _) = service(
        "
domain: d
descriptors:
  - { key: all, rate_limit: { name: base, unit: minute, requests_per_unit: 1 } }
  - { key: vip, rate_limit: { unit: minute, requests_per_unit: 5, replaces: [{ name: base }] } }
",
    );
    let both = || ask(&service, [entries(&[("all", "x")]), entries(&[("vip", "x")])]);
    assert!((0..5).all(|_| !both().over));
    assert!(both().over);
    assert_eq!(both().statuses()[0].by, By::Replaced);
    let alone = ask(&service, [entries(&[("all", "x")])]);
    assert!(!alone.over, "the replaced limit was charged nothing");
    assert_eq!(alone.statuses()[0].limit.as_ref().unwrap().name.as_deref(), Some("base"));
}

#[test]
fn request_can_give_limits_and_hits() {
    let (service, _) = service(
        "domain: d\ndescriptors: [{ key: a, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }]",
    );
    let own = |value: &str, requests| entries(&[("a", value)]).with_limit(requests, Unit::Hour);
    // As in the reference server, it is in no shadow, and needs no descriptor.
    assert!(!ask(&service, [own("v", 2).with_hits(2)]).over);
    assert!(ask(&service, [own("v", 2)]).over);
    assert!(!ask(&service, [own("v", 3)]).over, "another number over the same count");
    assert!(!ask(&service, [entries(&[("none", "w")]).with_limit(1, Unit::Hour)]).over);
    assert!(!ask(&service, [own("w", u32::MAX).with_hits(1 << 20)]).over);
    assert!(ask(&service, [own("x", 2).with_hits(u64::MAX)]).over);
    assert_eq!(ask(&service, [own("x", 2)]).statuses()[0].remaining, 1);
    // 0 hits of a request count as one, and 0 of a descriptor as none.
    let request = Request::new("d", [own("y", 1)]).with_hits(0);
    assert!(!service.decide_at(&request, service.now()).over);
    assert!(ask(&service, [own("y", 1).with_hits(0)]).over);
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

/// Limits with quotas: of a bucket of 1.2 s, and of one of 72 s.
const QUOTAS: &str = "
domain: d
descriptors:
  - { key: a, rate_limit: { unit: minute, requests_per_unit: 600, requests_per_quota: 100 } }
  - { key: b, rate_limit: { unit: hour, requests_per_unit: 99, requests_per_quota: 50 } }
  - { key: c, rate_limit: { unit: minute, requests_per_unit: 600 } }
";

/// Returns the requests and the milliseconds of each quota of an admitted request.
fn quotas<const N: usize>(
    service: &TestService,
    descriptors: [Descriptor; N],
) -> [Option<(u32, u128)>; N] {
    let decision = ask(service, descriptors);
    assert!(!decision.over);
    let of = |quota: &Quota| (quota.requests, quota.valid_for.as_millis());
    std::array::from_fn(|index| decision.statuses()[index].quota.as_ref().map(of))
}

#[test]
fn quota_is_charged_and_ends_with_its_bucket() {
    let (service, clock) = service(QUOTAS);
    let a = [("a", "v")];
    // 5 ms are for the clock of the caller.
    assert_eq!(quotas(&service, [entries(&a)]), [Some((99, 1_195))]);
    assert_eq!(remaining(&service, &a), 501);
    clock.advance(Duration::from_millis(600));
    assert_eq!(quotas(&service, [entries(&a)]), [Some((49, 595))]);
    assert_eq!(remaining(&service, &a), 452);
    clock.advance(Duration::from_millis(580));
    assert_eq!(quotas(&service, [entries(&a)]), [None], "one request in the time that is left");
    assert_eq!(remaining(&service, &a), 451);
    // The charges of the quotas count as passed.
    let node = service.registry().get("d.a").unwrap();
    assert_eq!(node.lifetime().sum(MetricEvent::Pass), 149);
}

#[test]
fn request_has_a_quota_for_each_descriptor_or_none() {
    let (service, _) = service(QUOTAS);
    let [a, b, c] = [[("a", "v")], [("b", "v")], [("c", "v")]];
    let left = || [a, b, c].map(|of| remaining(&service, &of));
    assert_eq!(quotas(&service, [entries(&a), entries(&c)]), [None, None]);
    assert_eq!(quotas(&service, [entries(&a), entries(&[("none", "v")])]), [None, None]);
    assert_eq!(quotas(&service, [entries(&a).with_hits(2)]), [None]);
    assert_eq!(quotas(&service, [entries(&a).with_hits(0)]), [None]);
    assert_eq!(left(), [596, 99, 599]);
    let both = || quotas(&service, [entries(&a), entries(&b)]);
    assert_eq!(both(), [Some((99, 1_195)), Some((49, 71_995))]);
    assert_eq!(left(), [497, 50, 599]);
    assert_eq!(quotas(&service, [entries(&b)]), [Some((49, 71_995))]);
    // The second one has too few left for a quota, so the first one is given back.
    assert_eq!(quotas(&service, [entries(&a), entries(&b)]), [None, None]);
    assert_eq!(left(), [496, 0, 599]);
    let refused = ask(&service, [entries(&a), entries(&b)]);
    assert!(refused.over && refused.statuses().iter().all(|it| it.quota.is_none()));
    assert_eq!(left(), [496, 0, 599]);
}

/// The status of a request with several descriptors is that of a reading after it.
#[test]
fn statuses_of_several_descriptors_have_all_charges() {
    let (service, clock) = service(TWO);
    let keys = [[("all", "x")], [("user", "ann")]];
    let read = |of: &[(&str, &str)]| {
        let decision = ask(&service, [entries(of).with_hits(0)]);
        (decision.statuses()[0].remaining, decision.statuses()[0].until_reset)
    };
    // Two are admitted, and the third one is refused.
    for hits in [1, 1, 0, 1] {
        let both = ask(&service, keys.each_ref().map(|key| entries(key).with_hits(hits)));
        for (status, key) in both.statuses().iter().zip(&keys) {
            assert_eq!((status.remaining, status.until_reset), read(key), "{key:?}");
        }
        clock.advance(Duration::from_millis(700));
    }
    let user = [("user", "bob")];
    let twice = ask(&service, [entries(&user), entries(&user)]);
    assert!(!twice.over && twice.statuses().iter().all(|it| it.remaining == 0), "{twice:?}");
}
