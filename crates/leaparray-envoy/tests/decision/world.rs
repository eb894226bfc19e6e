//! A service with a clock that is set by hand, and requests to it.

use leaparray::{ManualClock, Timestamp};
use leaparray_envoy::config::Config;
use leaparray_envoy::service::{Decision, Descriptor, Request, Service, Settings, Store};

pub(crate) type TestService = Service<ManualClock>;

pub(crate) fn service_with(yaml: &str, settings: Settings) -> (TestService, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let config = Config::from_yaml(yaml).unwrap();
    (Service::with_settings(&config, &Store::Memory, settings, clock.clone()), clock)
}

pub(crate) fn service(yaml: &str) -> (TestService, ManualClock) {
    service_with(yaml, Settings::default())
}

pub(crate) fn entries(entries: &[(&str, &str)]) -> Descriptor {
    Descriptor::new(entries.iter().copied())
}

pub(crate) fn ask<const N: usize>(service: &TestService, descriptors: [Descriptor; N]) -> Decision {
    service.decide_at(&Request::new("d", descriptors), service.now())
}

/// Returns the limit that concerns the entries; `None` if none does.
pub(crate) fn limit(service: &TestService, of: &[(&str, &str)]) -> Option<u32> {
    let decision = ask(service, [entries(of).with_hits(0)]);
    decision.statuses()[0].limit.as_ref().map(|limit| limit.requests_per_unit)
}

/// Returns the hits that are left.
pub(crate) fn remaining(service: &TestService, of: &[(&str, &str)]) -> u64 {
    ask(service, [entries(of).with_hits(0)]).statuses()[0].remaining
}

/// A limit for all, and one for each user.
pub(crate) const TWO: &str = "
domain: d
descriptors:
  - { key: all, value: x, rate_limit: { unit: minute, requests_per_unit: 3 } }
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 2 } }
";
