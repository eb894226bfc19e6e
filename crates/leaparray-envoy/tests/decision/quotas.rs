//! Quotas of RLS.

use std::time::Duration;

use leaparray::MetricEvent;
use leaparray_envoy::service::{Descriptor, Quota};

use crate::world::{TestService, ask, entries, remaining, service};

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
