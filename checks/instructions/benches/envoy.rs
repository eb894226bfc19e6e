//! The number of instructions of a decision of the rate limit service in memory, from the
//! descriptors of a request to its statuses. `.ci/instructions` runs this bench under callgrind.
//!
//! The requests are made before, and the keys of clients are stored, so that an operation is a
//! decision and the drop of its result.

use std::hint::black_box;

use leaparray::ManualClock;
use leaparray_envoy::config::Config;
use leaparray_envoy::service::{Descriptor, Request, Service, Settings, Store};
use leaparray_instructions::{NOW, Operation};

const OPERATIONS: [Operation; 4] = [
    ("one_admitted", one_admitted),
    ("client_admitted", client_admitted),
    ("client_refused", client_refused),
    ("both_refused", both_refused),
];

const CLIENTS: usize = 1_000;

const ADMIT: &str = "
domain: shop
descriptors:
  - { key: path, value: /buy, rate_limit: { unit: hour, requests_per_unit: 4000000000 } }
  - { key: client, rate_limit: { unit: hour, requests_per_unit: 4000000000 } }
";

const REFUSE: &str = "
domain: shop
descriptors:
  - { key: path, value: /buy, rate_limit: { unit: hour, requests_per_unit: 4000000000 } }
  - { key: client, rate_limit: { unit: hour, requests_per_unit: 1 } }
";

fn path() -> Descriptor {
    Descriptor::new([("path", "/buy")])
}

fn client(at: usize) -> Descriptor {
    Descriptor::new([("client", format!("client-{at:03}"))])
}

fn decide(times: u64, yaml: &str, request: impl Fn(usize) -> Vec<Descriptor>) {
    let config = Config::from_yaml(yaml).expect("valid");
    let clock = ManualClock::new(NOW);
    let service = Service::with_settings(&config, &Store::Memory, Settings::default(), clock);
    let requests: Vec<_> = (0..CLIENTS).map(|at| Request::new("shop", request(at))).collect();
    for request in &requests {
        black_box(service.decide_at(request, NOW));
    }
    let mut requests = requests.iter().cycle();
    for _ in 0..times {
        let request = requests.next().expect("it has no end");
        black_box(&service.decide_at(black_box(request), black_box(NOW)));
    }
}

fn one_admitted(times: u64) {
    decide(times, ADMIT, |_| vec![path()]);
}

fn client_admitted(times: u64) {
    decide(times, ADMIT, |at| vec![client(at)]);
}

fn client_refused(times: u64) {
    decide(times, REFUSE, |at| vec![client(at)]);
}

fn both_refused(times: u64) {
    decide(times, REFUSE, |at| vec![path(), client(at)]);
}

fn main() {
    leaparray_instructions::main(&OPERATIONS);
}
