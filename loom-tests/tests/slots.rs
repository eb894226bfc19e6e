//! A model that uses a slot is explored with both stand-ins for it, and any other model once.
#![cfg(loom)]

use std::sync::{Arc as Invisible, Mutex};

use leaparray::slots_are_locked;
use leaparray_loom_tests::{Ring, explore, ring, window};
use loom::sync::Arc;
use loom::thread;

/// Explores a model in which two threads call `act`. Returns the stand-ins that it was explored
/// with, in order: `true` for the locked one.
fn stand_ins<T: Clone + 'static>(create: fn() -> T, act: fn(&T)) -> Vec<bool> {
    let used = Invisible::new(Mutex::new(Vec::new()));
    let noted = Invisible::clone(&used);
    explore(Some(0), move || {
        noted.lock().unwrap().push(slots_are_locked());
        let subject = create();
        let other = {
            let subject = subject.clone();
            thread::spawn(move || act(&subject))
        };
        act(&subject);
        other.join().unwrap();
    });
    let mut used = used.lock().unwrap().clone();
    used.dedup();
    used
}

/// An array loads and swaps its retired list as it rotates.
fn rotate(ring: &Arc<Ring>) {
    ring.add(0, 1);
    ring.add(1, 1);
}

#[test]
fn model_that_uses_a_slot_is_explored_with_both() {
    assert_eq!(stand_ins(|| ring(1), rotate), [false, true]);
}

/// A window has no slot. That a model before it has used one does not matter.
#[test]
fn model_that_uses_no_slot_is_explored_once() {
    let _ = stand_ins(|| ring(1), rotate);
    assert_eq!(stand_ins(|| window(1), |window| window.add(0, 1)), [false]);
}
