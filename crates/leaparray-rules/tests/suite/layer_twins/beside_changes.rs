//! A layer beside changes of other threads: each refusal is counted once, at the rule that it
//! names, and each permit returns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::routing::get;
use http::{HeaderMap, Request};
use leaparray::flow::Ask;
use leaparray::{Clock, Registry};
use leaparray_rules::{Caller, KeySource, RuleSet, Rules};
use tower::ServiceExt;

use super::{MODES, ROUTES, handle};

/// Versions of the same names, with other limits, keys, modes and another order.
fn version(number: usize) -> RuleSet {
    let one = |name: &str, resource: &str, lines: &str| {
        format!("[[rule]]\nname = \"{name}\"\nresource = \"{resource}\"\n{lines}\n")
    };
    let key = ["", "key = \"header:x-key\"\n", "key = \"resource\"\n"][number % 3];
    let mut rules = [
        one("flight", "GET /orders", "in_flight = 2"),
        one(
            "bucket",
            ["GET /*", "GET /files"][number % 2],
            &format!("{key}limit = \"{} per second, bursts of 20\"", 40 + number % 7),
        ),
        one("window", "GET /files", &format!("limit = \"{} per 100ms\"", 5 + number % 5)),
        one(
            "shadow",
            ["GET /*", "GET /files"][number % 2],
            &format!("in_flight = {}\nmode = \"{}\"", number % 4, MODES[number % 2]),
        ),
    ];
    if number % 2 == 1 {
        rules.reverse();
    }
    RuleSet::parse(&rules.concat()).unwrap()
}

/// A caller whose key is found by a program that changes the rules.
struct Changing<'a>(&'a Rules, usize);

impl Caller for Changing<'_> {
    type Key = &'static str;

    fn key(&self, _source: &KeySource) -> Option<&'static str> {
        self.0.apply(&version(self.1));
        Some("ann")
    }
}

#[test]
fn requests_of_a_layer_beside_changes_balance() {
    static RUNNING: AtomicU64 = AtomicU64::new(0);
    let rules = Rules::new(Arc::new(Registry::new()));
    rules.apply(&version(0));
    let handler = async |headers: HeaderMap| {
        struct Ends;
        impl Drop for Ends {
            fn drop(&mut self) {
                RUNNING.fetch_sub(1, Ordering::SeqCst);
            }
        }
        assert!(RUNNING.fetch_add(1, Ordering::SeqCst) < 2, "more than the limit");
        let _ends = Ends;
        tokio::task::yield_now().await;
        handle(headers).await
    };
    let app = Router::new().route("/orders", get(handler)).route("/files", get(handle));
    let app = app.layer(rules.layer().unwrap());
    let (is_over, refused, admitted) =
        (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3_usize {
            let (app, is_over, refused, admitted, rules) =
                (&app, &is_over, &refused, &admitted, &rules);
            scope.spawn(move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut held = VecDeque::new();
                    let mut step = thread;
                    while !is_over.load(Ordering::Relaxed) {
                        step += 1;
                        let request = Request::get(ROUTES[step % 2])
                            .header("x-key", ["ann", "bob"][step / 2 % 2])
                            .header("x-do", ["ok", "5", "panic", "ok"][step / 4 % 4])
                            .body(Body::empty())
                            .unwrap();
                        let answer = tokio::spawn(app.clone().oneshot(request));
                        if step % 11 == 0 {
                            tokio::task::yield_now().await;
                            answer.abort();
                        }
                        match answer.await {
                            Ok(Ok(answer)) if answer.status() == 429 => {
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                            Ok(answer) => {
                                admitted.fetch_add(1, Ordering::Relaxed);
                                held.push_back(answer.unwrap());
                            }
                            Err(_) => {}
                        }
                        if held.len() > step % 3 {
                            let body = held.pop_front().unwrap().into_body();
                            if step % 2 == 0 {
                                to_bytes(body, 1_000).await.unwrap();
                            }
                        }
                        if step % 40 == 0 {
                            let resource = rules.registry().resource("GET /files").unwrap();
                            let ask = Ask::at(resource.clock().now());
                            let changing = Changing(rules, step);
                            if let Some(refusal) = rules.ask(&resource, &changing, &ask).refusal() {
                                assert!(refusal.limiter().is_some());
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                });
            });
        }
        for number in 1..=300 {
            rules.apply(&version(number));
            if number % 10 == 0 {
                rules.registry().remove("GET /files");
            }
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let status = rules.status();
    let counted: u64 = status.refused.iter().map(|(_, count)| count).sum();
    // Also of a request that was aborted: it was refused before it waited for anything.
    assert_eq!(counted, refused.into_inner());
    assert!(admitted.into_inner() > 0);
    let resource = rules.registry().resource("GET /orders").unwrap();
    assert_eq!(resource.concurrency(), 0);
    rules.apply(
        &RuleSet::parse("[[rule]]\nname = \"flight\"\nresource = \"GET /orders\"\nin_flight = 2")
            .unwrap(),
    );
    let held: Vec<_> = (0..3).map(|_| rules.try_enter("GET /orders", ()).ok()).collect();
    assert_eq!(held.iter().filter(|it| it.is_some()).count(), 2, "each permit has returned");
}
