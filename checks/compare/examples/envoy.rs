//! Measures the decisions of `leaparray-envoy` in memory beside those of limitador, from
//! descriptors to a verdict.
//!
//! ```text
//! cargo run --release --manifest-path checks/compare/Cargo.toml --example envoy
//! ```
//!
//! In each round, both decide on the same requests, one after the other, on one thread and on two.
//! A figure is the mean of a request in the fastest tenth of the rounds, by the time of the thread
//! that takes longest: nanoseconds of a core, as long as each thread has one. Each thread makes its
//! descriptors before the clock starts, as a server has them from its decoder: memory of another
//! thread is slow to give back. What each library builds from them is measured, and the drop of it.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use leaparray_envoy::config::Config;
use leaparray_envoy::service::{Descriptor, Request, Service, Store};
use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace, Predicate};

const ROUNDS: usize = 200;
const REQUESTS: usize = 2_000;
const CLIENTS: usize = 1_000;

/// The entries of the descriptors of a request.
type Entries = Vec<Vec<(String, String)>>;

struct Case {
    name: &'static str,
    yaml: &'static str,
    /// The limits for limitador: the number in an hour, the conditions and the variables.
    limits: &'static [(u64, &'static [&'static str], &'static [&'static str])],
    entries: fn(usize) -> Entries,
}

fn entry(key: &str, value: String) -> (String, String) {
    (key.to_owned(), value)
}

const CASES: [Case; 4] = [
    Case {
        name: "one limit, with a condition",
        yaml: "
domain: shop
descriptors:
  - { key: path, value: /buy, rate_limit: { unit: hour, requests_per_unit: 4000000000 } }
",
        limits: &[(4_000_000_000, &["descriptors[0]['path'] == '/buy'"], &[])],
        entries: |_| vec![vec![entry("path", "/buy".to_owned())]],
    },
    Case {
        name: "a limit for each of 1,000 clients",
        yaml: "
domain: shop
descriptors:
  - { key: client, rate_limit: { unit: hour, requests_per_unit: 1000000 } }
",
        limits: &[(1_000_000, &[], &["descriptors[0].client"])],
        entries: |at| vec![vec![entry("client", format!("client-{}", at * 7 % CLIENTS))]],
    },
    Case {
        name: "the same, and all are refused",
        yaml: "
domain: shop
descriptors:
  - { key: client, rate_limit: { unit: hour, requests_per_unit: 1 } }
",
        limits: &[(1, &[], &["descriptors[0].client"])],
        entries: |at| vec![vec![entry("client", format!("client-{}", at * 7 % CLIENTS))]],
    },
    Case {
        name: "both limits, in two descriptors",
        yaml: "
domain: shop
descriptors:
  - { key: path, value: /buy, rate_limit: { unit: hour, requests_per_unit: 4000000000 } }
  - { key: client, rate_limit: { unit: hour, requests_per_unit: 1000000 } }
",
        limits: &[
            (4_000_000_000, &["descriptors[0]['path'] == '/buy'"], &[]),
            (1_000_000, &[], &["descriptors[1].client"]),
        ],
        entries: |at| {
            vec![
                vec![entry("path", "/buy".to_owned())],
                vec![entry("client", format!("client-{}", at * 7 % CLIENTS))],
            ]
        },
    },
];

fn main() {
    println!("ns of a core for a decision | leaparray-envoy | limitador | ratio");
    for case in &CASES {
        for threads in [1, 2] {
            let (ours, theirs) = measure(case, threads);
            println!(
                "{}, {threads} threads: {ours:.0} | {theirs:.0} | {:.1}",
                case.name,
                theirs / ours,
            );
        }
    }
}

fn measure(case: &Case, threads: usize) -> (f64, f64) {
    let config = Config::from_yaml(case.yaml).expect("valid");
    let service = Service::new(&config, &Store::Memory);
    let ours = |entries: Entries| {
        let descriptors =
            entries.into_iter().map(|entries| Descriptor { entries, limit: None, hits: None });
        let request = Request::new("shop", descriptors);
        service.decide_at(&request, service.now()).over
    };
    let limiter = RateLimiter::new(100_000);
    let namespace = Namespace::from("shop");
    for (most, conditions, variables) in case.limits {
        let conditions: Vec<Predicate> =
            conditions.iter().map(|it| (*it).try_into().expect("a condition")).collect();
        let variables = variables.iter().map(|it| (*it).try_into().expect("an expression"));
        limiter.add_limit(Limit::new(
            "shop",
            *most,
            3_600,
            conditions,
            variables.collect::<Vec<_>>(),
        ));
    }
    // As limitador's server does.
    let theirs = |entries: Entries| {
        let maps = entries.into_iter().map(|it| it.into_iter().collect::<HashMap<_, _>>());
        let mut context = Context::default();
        context.list_binding("descriptors".to_owned(), maps.collect());
        limiter.check_rate_limited_and_update(&namespace, &context, 1).expect("in memory").limited
    };
    // Both agree, so that what is measured is the same.
    for at in 0..100 {
        assert_eq!(ours((case.entries)(at)), theirs((case.entries)(at)), "{}: {at}", case.name);
    }
    let (mut of_ours, mut of_theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        of_ours.push(round(threads, case.entries, &ours));
        of_theirs.push(round(threads, case.entries, &theirs));
    }
    (quiet(of_ours), quiet(of_theirs))
}

/// Returns the time of a round: of the thread that takes longest.
fn round(
    threads: usize,
    entries: fn(usize) -> Entries,
    ask: &(dyn Fn(Entries) -> bool + Sync),
) -> Duration {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let of_thread = |thread: usize| {
            let start = &start;
            move || {
                let inputs: Vec<_> = (0..REQUESTS).map(|at| entries(at + thread * 13)).collect();
                start.wait();
                let begun = Instant::now();
                for input in inputs {
                    black_box(ask(input));
                }
                begun.elapsed()
            }
        };
        let threads: Vec<_> = (0..threads).map(|it| scope.spawn(of_thread(it))).collect();
        threads.into_iter().map(|it| it.join().expect("no panic")).max().expect("a thread")
    })
}

/// Returns the nanoseconds of a decision in the fastest tenth of the rounds.
fn quiet(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort();
    let fastest = &rounds[..ROUNDS / 10];
    let sum: Duration = fastest.iter().sum();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let requests = (fastest.len() * REQUESTS) as f64;
    sum.as_secs_f64() * 1e9 / requests
}
