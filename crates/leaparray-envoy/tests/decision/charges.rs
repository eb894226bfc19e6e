//! What a request is charged, and what its statuses tell.

use std::time::Duration;

use leaparray_envoy::config::Unit;
use leaparray_envoy::service::{By, Charging, Code, Request, Settings};

use crate::world::{TWO, ask, entries, remaining, service, service_with};

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

/// The status of a request with several descriptors is what a reading after the request finds.
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
