//! The stand-in for a value that is made when it is first needed.

use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize as Invisible;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::stall::{self, Point};

/// The number of threads that loom can run. Each makes at most one value.
const RACERS: usize = 5;

/// A value that is made when it is first needed. An index into the values that the threads have
/// made is set once. It stands for the pointer of `OnceBox`, and synchronizes as that pointer does.
/// A value that lost the race is kept until the `RacyOnce` is dropped.
#[derive(Debug)]
pub(crate) struct RacyOnce<T> {
    /// The index + 1; 0 before a value is published.
    made: AtomicUsize,
    /// Boxed one by one: a model makes few of them, and statics are leaked with each execution.
    values: [OnceLock<Box<T>>; RACERS],
    racers: Invisible,
}

impl<T> RacyOnce<T> {
    pub(crate) fn new() -> Self {
        let values = [const { OnceLock::new() }; RACERS];
        Self { made: AtomicUsize::new(0), values, racers: Invisible::new(0) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        let made = self.made.load(Ordering::Acquire);
        self.values.get(made.checked_sub(1)?)?.get().map(Box::as_ref)
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let racer = self.racers.fetch_add(1, Relaxed);
        let value = self.values[racer].get_or_init(|| Box::new(make()));
        stall::at(Point::Made);
        let swapped = self.made.compare_exchange(0, racer + 1, Ordering::AcqRel, Ordering::Acquire);
        match swapped {
            Ok(_) => value,
            Err(winner) => self.values[winner - 1].get().expect("made before it was published"),
        }
    }
}
