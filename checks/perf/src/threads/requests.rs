//! Requests to services with middleware, on one thread to many.
//!
//! A server clones the router of axum for each request, and all clones of a router count their
//! owners in one word, which all threads write. So the services are measured twice: with one router
//! for all threads, as in a server, and with a router for each thread, which shows what the layer
//! does. There, the layers have one registry, so the requests have one resource.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use leaparray::RegistryConfig;
use leaparray_perf_page::{Crowd, Value};
use tower::layer::util::Identity;

use super::{THREADS, rows_of};
use crate::goals::{Row, UNCHANGED_LIMIT};
use crate::harness::Suite;
use crate::middleware::requests::{Client, case};
use crate::middleware::stacks::{BODY, NOTHING, OURS, Stack, bare, layer, own_body};
use crate::results::Results;
use crate::timed::{bind, on_threads_each};

/// The services with one router.
const SHARED: [Stack; 3] = [NOTHING, BODY, OURS];

/// A service, and a function that creates a router for each of some threads.
type Service = (Stack, fn(usize) -> Vec<Router>);

const SEPARATE: [Service; 3] = [
    (NOTHING, |threads| routers(threads, || bare().layer(Identity::new()))),
    (BODY, |threads| routers(threads, || bare().layer(own_body()))),
    (OURS, |threads| {
        let layer = layer(RegistryConfig::default());
        routers(threads, || bare().layer(layer.clone()))
    }),
];

/// A function that returns the name of a service's case.
type CaseOf = fn(&Stack) -> String;

fn routers(threads: usize, make: impl Fn() -> Router) -> Vec<Router> {
    (0..threads).map(|_| make().with_state(())).collect()
}

fn separate(stack: &Stack) -> String {
    format!("{}, a router for each thread", case(stack))
}

pub(super) fn rows() -> Vec<Row> {
    let shared = SHARED.iter().map(case);
    shared.chain(SHARED.iter().map(separate)).flat_map(|case| rows_of(&case, None)).collect()
}

pub(super) fn add(suite: &mut Suite, threads: usize) {
    for stack in SHARED {
        add_service(suite, &case(&stack), vec![stack.router(); threads]);
    }
    for (stack, routers) in SEPARATE {
        add_service(suite, &separate(&stack), routers(threads));
    }
}

/// Adds the case of a service, with the router of each thread.
fn add_service(suite: &mut Suite, case: &str, routers: Vec<Router>) {
    let (threads, routers): (_, Arc<[_]>) = (routers.len(), routers.into());
    suite.add_run(case, Crowd::of(threads), threads, move |iters, first| {
        let started = AtomicUsize::new(0);
        let make = || {
            let thread = started.fetch_add(1, Ordering::Relaxed);
            bind(thread);
            let mut client = Client::new(routers[thread].clone());
            move |_| client.request()
        };
        on_threads_each(threads, iters, first, &make).map(|elapsed| elapsed.wall)
    });
}

/// Returns what the layer adds beyond one with a body of its own that does nothing.
pub(super) fn added(results: &Results) -> Vec<Value> {
    let kinds = [("one router", case as CaseOf), ("a router for each thread", separate)];
    let values = kinds.into_iter().flat_map(|(routers, case)| {
        let added = move |threads| {
            let cost = |stack: &Stack| results.median(&case(stack), Crowd::of(threads));
            Some(cost(&OURS)? - cost(&BODY)?)
        };
        THREADS.into_iter().filter_map(move |threads| {
            let (unit, measured, at_most) = match threads {
                1 => ("ns", added(1)?, None),
                _ => ("× with one thread", added(threads)? / added(1)?, Some(UNCHANGED_LIMIT)),
            };
            let case =
                format!("the layer adds beyond one with a body that does nothing, {routers}");
            let measured = (measured * 100.0).round() / 100.0;
            let (crowd, unit) = (Crowd::of(threads), unit.to_owned());
            Some(Value { case, crowd, measured, unit, at_most, spread: None })
        })
    });
    values.collect()
}
