//! Places in a process where an operation finds less than elsewhere: a small stack, a thread that
//! ends, a process that exits, and a forked child.

#[cfg(unix)]
mod at_exit;
#[cfg(unix)]
mod first;
#[cfg(unix)]
mod forked;
mod operations;
#[cfg(unix)]
mod own_process;

use std::cell::RefCell;
use std::sync::{LazyLock, Mutex};
use std::thread;

use leaparray::MetricEvent::Success;
use leaparray::registry::RegistryError;
use leaparray::{Registry, RegistryConfig, TrafficType};

/// The stack on which each operation runs, in bytes. It contains the thread-locals as well.
const SMALL_STACK: usize = 32 << 10;

/// The stack on which records run, and limiters without a queue. Where the smallest stack of the
/// system is larger, they run on that.
const HALF_OF_IT: usize = SMALL_STACK / 2;

/// Runs `operation` on a thread with that stack. An overflow aborts the process.
fn on_a_stack_of(bytes: usize, operation: fn()) {
    thread::Builder::new().stack_size(bytes).spawn(operation).unwrap().join().unwrap();
}

/// Runs its function when it is dropped.
struct AtEnd(fn());

impl Drop for AtEnd {
    fn drop(&mut self) {
        (self.0)();
    }
}

thread_local! {
    static AT_END: RefCell<Vec<AtEnd>> = const { RefCell::new(Vec::new()) };
}

/// Runs `operation` in the destructor of a thread-local. Destructors run in the reverse order of
/// the first use on most systems, so this one runs before those of the crate and of its
/// dependencies if the thread has done `before`.
fn in_a_destructor_early(before: fn(), operation: fn()) {
    let run = move || {
        before();
        AT_END.with_borrow_mut(|at_end| at_end.push(AtEnd(operation)));
    };
    thread::spawn(run).join().unwrap();
}

/// Runs `operation` in the destructor of a thread-local that was used before `then` runs, so it is
/// destroyed after the thread-locals that `then` uses.
fn in_a_destructor_late(then: fn(), operation: fn()) {
    let run = move || {
        AT_END.with_borrow_mut(|at_end| at_end.push(AtEnd(operation)));
        then();
    };
    thread::spawn(run).join().unwrap();
}

/// Runs `operation` in destructors of thread-locals: before, after, and without others.
fn in_a_destructor(operation: fn()) {
    in_a_destructor_early(operation, operation);
    in_a_destructor_late(operation, operation);
    in_a_destructor_early(|| (), operation);
}

/// The changes of a registry by a thread that ends. The tests of [`operations`] have the rest.
#[test]
fn thread_that_ends_lists_no_name_and_removes_names() {
    static ENDED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    static REGISTRY: LazyLock<Registry> =
        LazyLock::new(|| Registry::with_config(RegistryConfig::default().max_resources(2)));
    fn end() {
        let error = REGISTRY.resource("GET /new").unwrap_err();
        assert_eq!(error, RegistryError::ThreadEnds { name: "GET /new".into() });
        assert!(REGISTRY.find_or_list("GET /new", TrafficType::Inbound).is_none());
        assert_eq!(REGISTRY.refused(), 2);
        let orders = REGISTRY.resource("GET /orders").unwrap();
        orders.enter().success();
        assert!(REGISTRY.remove("GET /orders") && orders.is_removed());
        assert!(!REGISTRY.remove("GET /orders") && !REGISTRY.remove_resource(&orders));
        assert!(REGISTRY.get("GET /orders").is_none());
        ENDED.lock().unwrap().push(error.to_string());
    }
    for name in ["GET /orders", "GET /users"] {
        REGISTRY.resource(name).unwrap();
    }
    let look_up = || drop(REGISTRY.get("GET /orders"));
    in_a_destructor_late(look_up, end);
    let expected = "resource \"GET /new\" is not listed, and a thread whose locals are destroyed \
                    can list none: look it up earlier, or on another thread";
    assert_eq!(*ENDED.lock().unwrap(), [expected]);
    // The room of the removed resource is free, and taken once.
    let anew = REGISTRY.resource("GET /new").unwrap();
    assert_eq!((anew.now().long().sum(Success), REGISTRY.len()), (0, 2));
    assert!(REGISTRY.resource("GET /orders").is_err(), "both are listed");
    assert_eq!(REGISTRY.lifetime().sum(Success), 1);
}
