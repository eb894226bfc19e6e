//! The resources that a thread has found, which its later requests use again.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use http::{Request, Response};
use leaparray::{Clock, MetricEvent};
use leaparray_tower::ResourceLayer;
use tower::{Layer, Service};

use crate::service::{
    Manual, SUCCESS, Step, Steps, answering, endings_of, get, layer, poll_body, poll_now, registry,
};

fn empty() -> Response<Steps> {
    Response::new(Steps::default().that_says_its_end())
}

fn evict(registry: &Manual) -> usize {
    registry.evict_idle_at(registry.clock().now(), Duration::ZERO)
}

#[test]
fn resource_that_the_thread_has_found_can_be_evicted() {
    let registry = registry();
    let mut service = layer(&registry).layer(answering(empty()));
    let mut id_of_request = || {
        poll_now(service.call(get("/orders"))).unwrap();
        registry.get("/orders").unwrap().id()
    };
    let first = [(); 3].map(|()| id_of_request());
    assert_eq!(endings_of(&registry, "/orders"), [3, 0, 0, 0, 0]);
    assert_eq!(evict(&registry), 1);
    assert!(!first.contains(&id_of_request()), "a new resource");
    assert_eq!(endings_of(&registry, "/orders"), SUCCESS);
}

#[test]
fn removed_resource_gets_no_further_request() {
    let registry = registry();
    let mut service = layer(&registry).layer(answering(empty()));
    for _ in 0..3 {
        poll_now(service.call(get("/orders"))).unwrap();
    }
    // The handle keeps the one alive that the thread has found.
    let removed = registry.get("/orders").unwrap();
    registry.remove("/orders");
    poll_now(service.call(get("/orders"))).unwrap();
    assert_eq!(crate::service::endings(&removed), [3, 0, 0, 0, 0]);
    assert_eq!(endings_of(&registry, "/orders"), SUCCESS);
}

/// The request has ended before, so nothing but the handle keeps the resource.
#[test]
fn body_keeps_its_resource_until_it_is_dropped() {
    let registry = registry();
    let steps = Steps::of([Step::Data(b"whole")]);
    let mut service = layer(&registry).layer(answering(Response::new(steps)));
    let mut body = poll_now(service.call(get("/orders"))).unwrap().into_body();
    assert!(matches!(poll_body(&mut body), Poll::Ready(Some(Ok(_)))));
    assert!(matches!(poll_body(&mut body), Poll::Ready(None)));
    assert_eq!(endings_of(&registry, "/orders"), SUCCESS);
    assert_eq!(evict(&registry), 0);
    drop(body);
    assert_eq!(evict(&registry), 1);
    assert_eq!(registry.lifetime().sum(MetricEvent::Success), 1);
}

#[test]
fn layers_of_one_thread_find_their_own_resources() {
    // More than a thread has slots, so two of them share one.
    let registries = [(); 100].map(|()| registry());
    let mut services = registries.each_ref().map(|it| layer(it).layer(answering(empty())));
    for _ in 0..3 {
        for service in &mut services {
            poll_now(service.call(get("/orders"))).unwrap();
        }
    }
    for registry in &registries {
        assert_eq!(endings_of(registry, "/orders"), [3, 0, 0, 0, 0]);
    }
}

#[test]
fn each_of_many_names_finds_its_own_resource() {
    let registry = registry();
    let mut service = layer(&registry).layer(answering(empty()));
    // More than a thread keeps, of all lengths.
    let names: Vec<_> = (0..300_usize).map(|it| format!("/{it}{}", "x".repeat(it % 20))).collect();
    for name in names.iter().chain(&names).chain(names.iter().rev()) {
        poll_now(service.call(get(name))).unwrap();
    }
    for name in &names {
        assert_eq!(endings_of(&registry, name), [3, 0, 0, 0, 0], "{name}");
    }
}

#[test]
fn request_after_a_name_that_panics_finds_its_resource() {
    let registry = registry();
    let name = |request: &Request<()>, name: &mut String| {
        name.push_str(request.uri().path());
        assert_ne!(request.uri().path(), "/panics", "the name panics");
    };
    let layer = ResourceLayer::new(Arc::clone(&registry), name).unwrap();
    let mut service = layer.layer(answering(empty()));
    for turn in 1..=3 {
        let panics = catch_unwind(AssertUnwindSafe(|| drop(service.call(get("/panics")))));
        panics.unwrap_err();
        for _ in 0..2 {
            poll_now(service.call(get("/orders"))).unwrap();
        }
        assert_eq!(endings_of(&registry, "/orders"), [2 * turn, 0, 0, 0, 0]);
    }
    assert!(registry.get("/panics").is_none());
}

#[test]
fn threads_that_hold_a_resource_keep_it_listed() {
    const REQUESTS: u64 = 2_000;
    let registry = registry();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = [(); 2].map(|()| {
            let mut service = layer(&registry).layer(answering(empty()));
            let registry = &registry;
            scope.spawn(move || {
                for _ in 0..REQUESTS {
                    let future = service.call(get("/orders"));
                    // Its entry is in flight, in the resource that is listed.
                    let listed = registry.get("/orders").expect("listed").concurrency();
                    assert!(listed > 0, "the entry is in another node");
                    poll_now(future).unwrap();
                }
            })
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                evict(&registry);
            }
        });
        let served = serving.map(thread::ScopedJoinHandle::join);
        over.store(true, Ordering::Relaxed);
        assert!(served.iter().all(Result::is_ok));
    });
    assert_eq!(registry.lifetime().sum(MetricEvent::Success), 2 * REQUESTS);
}

#[test]
fn thread_that_ends_serves_requests() {
    struct AtTheEnd(Box<dyn FnOnce()>);

    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            std::mem::replace(&mut self.0, Box::new(|| ()))();
        }
    }

    thread_local! {
        static AT_THE_END: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
    }

    // Thread-locals are dropped in the order of their initialization or in reverse.
    for request_first in [false, true] {
        let registry = registry();
        let mut service = layer(&registry).layer(answering(empty()));
        let mut requests = move || {
            for _ in 0..2 {
                poll_now(service.call(get("/orders"))).unwrap();
            }
        };
        let ending = thread::spawn(move || {
            if request_first {
                requests();
            } else {
                AT_THE_END.set(None);
                requests();
            }
            AT_THE_END.set(Some(AtTheEnd(Box::new(requests))));
        });
        ending.join().unwrap();
        assert_eq!(endings_of(&registry, "/orders"), [4, 0, 0, 0, 0], "{request_first}");
    }
}
