#!/usr/bin/env bash
# loom: a load before a store hides a race, and SeqCst accesses are weaker than in C11
#
# Guess: a model without a bound sees each outcome that the memory model allows, and no other.
# Behaviour: loom remembers only the last access of an atomic when it decides which orders to
# explore. If the thread that stores also loads before, its load takes the place of the other
# thread's access, and one execution is all that is tried. SeqCst loads and stores are taken for
# acquire and release, so an outcome appears that C11 forbids; a SeqCst fence works. Load buffering,
# which C11 allows for relaxed accesses, never appears.
# Version: loom 0.7.3; 0.7.2 is the same.
# Here: `src/sync/model/shadowed.rs` stores to a shadow before each load, and the crate has no
# SeqCst operation. See "What loom does not see" in docs/CORRECTNESS.md.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
loom = "=0.7.3"
END

program() { cargo_program <<'END'; }
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU8, Ordering, Ordering::Relaxed, Ordering::SeqCst, fence};
use loom::thread::spawn;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Prints the number of executions, and the outcomes of all.
fn explore<T: Ord + std::fmt::Debug + Send + 'static>(name: &str, model: impl Fn() -> T + Send + Sync + 'static) {
    let seen = std::sync::Arc::new(Mutex::new((0, BTreeSet::new())));
    let outcomes = seen.clone();
    loom::model(move || {
        let outcome = model();
        let mut outcomes = outcomes.lock().unwrap();
        outcomes.0 += 1;
        outcomes.1.insert(outcome);
    });
    let (executions, outcomes) = &*seen.lock().unwrap();
    println!("{name}: {executions} executions, {outcomes:?}");
}

/// One thread loads `x`. The other one stores 1, and loads before if `loads_before`.
fn load_against_store(loads_before: bool) -> u8 {
    let x = Arc::new(AtomicU8::new(0));
    let writer = spawn({
        let x = x.clone();
        move || {
            if loads_before {
                x.load(Relaxed);
            }
            x.store(1, Relaxed);
        }
    });
    let seen = x.load(Relaxed);
    writer.join().unwrap();
    seen
}

/// Each thread runs the same function on two atomics, which the second one gets in reverse.
fn both(run: fn(&AtomicU8, &AtomicU8) -> u8) -> (u8, u8) {
    let words = Arc::new((AtomicU8::new(0), AtomicU8::new(0)));
    let other = spawn({
        let words = words.clone();
        move || run(&words.1, &words.0)
    });
    let seen = run(&words.0, &words.1);
    (seen, other.join().unwrap())
}

fn store_then_load(own: &AtomicU8, other: &AtomicU8, ordering: Ordering) -> u8 {
    own.store(1, ordering);
    if ordering == Relaxed {
        fence(SeqCst);
    }
    other.load(ordering)
}

fn main() {
    explore("load; store", || load_against_store(false));
    explore("load; load and store", || load_against_store(true));
    explore("store buffering, SeqCst", || both(|own, other| store_then_load(own, other, SeqCst)));
    explore("store buffering, SeqCst fence", || both(|own, other| store_then_load(own, other, Relaxed)));
    explore("load buffering", || {
        both(|own, other| {
            let seen = own.load(Relaxed);
            other.store(1, Relaxed);
            seen
        })
    });
}
END

expect program <<'END'
load; store: 6 executions, {0, 1}
load; load and store: 1 executions, {0}
store buffering, SeqCst: 30 executions, {(0, 0), (0, 1), (1, 0), (1, 1)}
store buffering, SeqCst fence: 15 executions, {(0, 1), (1, 0), (1, 1)}
load buffering: 15 executions, {(0, 0), (0, 1), (1, 0)}
END
