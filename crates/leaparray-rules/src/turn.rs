//! The state that a change of the rules leaves for the next one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leaparray::Timestamp;

use crate::limiter::{RuleClock, Watched};
use crate::plan::Active;

/// The limiters that the registry watches, with the resources at which a page shows them, by the
/// names of the rules.
pub(crate) type WatchedRules<C> = HashMap<Arc<str>, (Watched<C>, Box<str>)>;

/// The rules that are gone by their names, and since when.
pub(crate) type GoneRules<C> = HashMap<Arc<str>, (Active<C>, Timestamp)>;

/// The state that a change leaves for the next one.
pub(crate) struct Turn<C: RuleClock> {
    /// The rules that the registry watches.
    pub(crate) watched: WatchedRules<C>,
    /// The rules that are gone, or whose limiter was replaced, with the time.
    pub(crate) gone: GoneRules<C>,
}

impl<C: RuleClock> Default for Turn<C> {
    fn default() -> Self {
        Self { watched: HashMap::new(), gone: HashMap::new() }
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
