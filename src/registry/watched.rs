//! The list of watched limiters.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
// Not loom's: no model watches a limiter.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Registry, name};
use crate::flow::watch::{Watch, WatchedState};
use crate::sync::Name;

type Shared = Arc<dyn Watch + Send + Sync>;

#[derive(Clone)]
struct Watching {
    resource: Name,
    limiter: Shared,
}

/// The watched limiters by their names. The lock is held for no code of the user.
#[derive(Default)]
pub(super) struct WatchList(Mutex<BTreeMap<Name, Watching>>);

/// A watched limiter and its state at one time: plain data. Returned by [`Registry::watched`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WatchedLimiter {
    /// The name under which it is watched.
    pub name: Name,
    /// The name of the resource at which a page shows it; by default, this is its own name.
    pub resource: Name,
    /// The state.
    pub state: WatchedState,
}

/// The error of [`Registry::watch`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchError {
    /// Another limiter is watched under the name.
    Duplicate {
        /// The name.
        name: Box<str>,
    },
    /// The name is empty, or contains a control character or a line break.
    InvalidName {
        /// The name.
        name: Box<str>,
    },
}

impl<C> Registry<C> {
    /// Adds a limiter to the list of those that every exporter of this registry shows: the live
    /// page, the collector of Prometheus, OpenTelemetry, and the feed of the `metrics` facade. It
    /// is shown under `name`, on the page at the resource with that name if there is one. See
    /// [`Watch`] for what can be watched.
    ///
    /// The list keeps the limiter until it is [unwatched](Self::unwatch), or the registry is
    /// dropped. To watch a limiter for as long as another owner keeps it, watch a
    /// [`Weak`](std::sync::Weak) reference: once the limiter is dropped, it is in the list no
    /// longer, and its name is free. Do so for a limiter that owns an `Arc` of this registry:
    /// otherwise, each keeps the other, and neither is dropped.
    ///
    /// The list has no maximum: choose the names in the program, and not from requests.
    ///
    /// # Errors
    ///
    /// Returns [`WatchError::Duplicate`] if another limiter is watched under the name, which stays.
    ///
    /// Returns [`WatchError::InvalidName`] if the name is empty, or contains a control character or
    /// a line break.
    ///
    /// ```
    /// use leaparray::flow::{ConcurrencyLimiter, Keyed, Rate, TokenBucket};
    /// use leaparray::flow::watch::WatchedState;
    /// use leaparray::Registry;
    /// use leaparray::registry::WatchError;
    /// use std::sync::Arc;
    ///
    /// let registry = Registry::new();
    /// let database = Arc::new(ConcurrencyLimiter::new(20));
    /// registry.watch("database", Arc::downgrade(&database))?;
    /// let per_minute = TokenBucket::new(Rate::per_minute(1)?, 1);
    /// let clients = Arc::new(Keyed::<String, _>::new(per_minute, 1_000)?);
    /// registry.watch("clients", Arc::clone(&clients))?;
    /// assert!(matches!(
    ///     registry.watch("clients", Arc::clone(&database)),
    ///     Err(WatchError::Duplicate { .. })
    /// ));
    ///
    /// let _ = ["ann", "ann"].map(|client| clients.try_acquire(client));
    /// let [clients, database_then] = &registry.watched()[..] else { panic!("there are two") };
    /// let WatchedState::Keyed { top_refused, .. } = &clients.state else { panic!("it is keyed") };
    /// assert_eq!((top_refused[0].key.as_str(), top_refused[0].refusals), ("ann", 1));
    /// let WatchedState::Quota(quota) = database_then.state else { panic!("it has a limit") };
    /// assert_eq!(quota.limit, 20);
    ///
    /// drop(database);
    /// assert_eq!(registry.watched().len(), 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch(
        &self,
        name: &str,
        limiter: impl Watch + Send + Sync + 'static,
    ) -> Result<(), WatchError> {
        self.watch_at(name, name, limiter)
    }

    /// Like [`watch`](Self::watch), but a page shows the limiter at the resource with another name:
    /// for a resource with several limiters, each of which has a name of its own.
    ///
    /// # Errors
    ///
    /// As for [`watch`](Self::watch), for both names.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray::flow::{CircuitBreaker, CircuitConfig, ConcurrencyLimiter};
    /// use std::sync::Arc;
    ///
    /// let registry = Registry::new();
    /// registry.watch("POST /pay", Arc::new(ConcurrencyLimiter::new(20)))?;
    /// let breaker = Arc::new(CircuitBreaker::new(CircuitConfig::default()));
    /// registry.watch_at("POST /pay", "POST /pay breaker", breaker)?;
    /// let watched = registry.watched();
    /// let names: Vec<_> = watched.iter().map(|it| (&*it.name, &*it.resource)).collect();
    /// assert_eq!(names, [("POST /pay", "POST /pay"), ("POST /pay breaker", "POST /pay")]);
    /// # Ok::<_, leaparray::registry::WatchError>(())
    /// ```
    pub fn watch_at(
        &self,
        resource: &str,
        name: &str,
        limiter: impl Watch + Send + Sync + 'static,
    ) -> Result<(), WatchError> {
        if let Some(name) = [resource, name].into_iter().find(|name| !name::is_valid(name)) {
            return Err(WatchError::InvalidName { name: name.into() });
        }
        let limiter: Shared = Arc::new(limiter);
        loop {
            let other = match self.watches.lock().entry(Name::from(name)) {
                Entry::Vacant(vacant) => {
                    vacant.insert(Watching { resource: resource.into(), limiter });
                    return Ok(());
                }
                Entry::Occupied(other) => Arc::clone(&other.get().limiter),
            };
            if !is_gone(&other) {
                return Err(WatchError::Duplicate { name: name.into() });
            }
            self.forget_watched(name, &other);
        }
    }

    /// Takes the limiter with that name out of the list, and returns whether it was there.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray::flow::{Rate, TokenBucket};
    ///
    /// let registry = Registry::new();
    /// registry.watch("search", TokenBucket::new(Rate::per_second(10)?, 20))?;
    /// assert!(registry.unwatch("search") && !registry.unwatch("search"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn unwatch(&self, name: &str) -> bool {
        // A drop of the limiter is code of the user: after the lock.
        let limiter = self.watches.lock().remove(name);
        limiter.is_some()
    }

    /// Returns the watched limiters with their states now, each by its own clock, in the order of
    /// their names.
    ///
    /// A limiter whose code panics is [`Panicked`](WatchedState::Panicked), and the others are
    /// read. No lock is held while a limiter is read.
    #[must_use]
    pub fn watched(&self) -> Vec<WatchedLimiter> {
        let all = self.watches.lock().clone();
        let mut watched = Vec::with_capacity(all.len());
        for (name, Watching { resource, limiter }) in all {
            match state(&limiter) {
                Some(state) => watched.push(WatchedLimiter { name, resource, state }),
                None => self.forget_watched(&name, &limiter),
            }
        }
        watched
    }

    /// Takes this limiter out of the list, and no later one with its name.
    fn forget_watched(&self, name: &str, limiter: &Shared) {
        let mut watches = self.watches.lock();
        if watches.get(name).is_some_and(|found| Arc::ptr_eq(&found.limiter, limiter)) {
            watches.remove(name);
        }
    }
}

/// Returns the state of a limiter; `None` if it no longer exists.
fn state(limiter: &Shared) -> Option<WatchedState> {
    // Unwind safety is up to the user's code, which the next reading calls again.
    let state = catch_unwind(AssertUnwindSafe(|| limiter.watched()));
    state.unwrap_or(Some(WatchedState::Panicked))
}

fn is_gone(limiter: &Shared) -> bool {
    state(limiter).is_none()
}

impl WatchList {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Watching>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { name } => write!(
                f,
                "another limiter is watched under the name {name:?}: unwatch it before, or choose \
                 another name"
            ),
            Self::InvalidName { name } => name::explain_invalid(f, name),
        }
    }
}

impl Error for WatchError {}
