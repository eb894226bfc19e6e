//! A limiter of any kind for each key.

use std::sync::{Arc, Mutex, PoisonError};

use leaparray::flow::watch::{Watch, WatchedState};
use leaparray::flow::{
    Account, Ask, Decision, Keyed, LeakyBucket, Limiter, LimiterExt, TokenBucket,
};

use super::one::One;
use super::{RuleClock, RulePermit, RulePermits};
use crate::limit::Limit;

/// A limiter for each key. Buckets have a word for each, and the other kinds a limiter.
pub(crate) enum PerKey<C: RuleClock> {
    Bucket(Arc<Keyed<String, TokenBucket<C>>>),
    Pace(Arc<Keyed<String, LeakyBucket<C>>>),
    Each {
        keys: Arc<Keyed<String, (Make<C>, C)>>,
        /// The numbers for the limiter of a new key.
        limit: Arc<Mutex<Limit>>,
    },
}

/// Makes the limiter of a new key.
type Make<C> = Box<dyn Fn() -> One<C> + Send + Sync>;

/// Returns a limiter that was just made.
fn sole<T>(limiter: Arc<T>) -> T {
    Arc::into_inner(limiter).expect("nothing else has it")
}

impl<C: RuleClock> PerKey<C> {
    /// Creates the limiters of a limit that was checked.
    pub(super) fn new(limit: &Limit, max_keys: usize, clock: &C) -> Self {
        const CHECKED: &str = "the number of keys was checked when the rule was read";
        match One::known(limit, clock) {
            One::Bucket(bucket) => {
                let bucket = sole(bucket);
                Self::Bucket(Arc::new(Keyed::new(bucket, max_keys).expect(CHECKED).with_overflow()))
            }
            One::Pace(bucket) => {
                let bucket = sole(bucket);
                Self::Pace(Arc::new(Keyed::new(bucket, max_keys).expect(CHECKED).with_overflow()))
            }
            _ => {
                let limit = Arc::new(Mutex::new(limit.clone()));
                let make: Make<C> = {
                    let (limit, clock) = (Arc::clone(&limit), clock.clone());
                    Box::new(move || {
                        let limit = limit.lock().unwrap_or_else(PoisonError::into_inner);
                        One::known(&limit, &clock)
                    })
                };
                let keys =
                    Keyed::new((make, clock.clone()), max_keys).expect(CHECKED).with_overflow();
                Self::Each { keys: Arc::new(keys), limit }
            }
        }
    }

    /// Changes the numbers of all keys in place, to those of a limit that was checked.
    pub(super) fn set(&self, to: &Limit, clock: &C) {
        match self {
            Self::Bucket(keys) => {
                if let One::Bucket(bucket) = One::known(to, clock) {
                    keys.reconfigure(sole(bucket));
                }
            }
            Self::Pace(keys) => {
                if let One::Pace(bucket) = One::known(to, clock) {
                    keys.reconfigure(sole(bucket));
                }
            }
            Self::Each { keys, limit } => {
                // Before the visit: a key that is inserted beside it has the new numbers.
                limit.lock().unwrap_or_else(PoisonError::into_inner).clone_from(to);
                keys.for_each_limiter(|it| it.set(to));
            }
        }
    }

    #[inline]
    pub(super) fn decide(&self, key: &str, ask: &Ask<'_>) -> Decision<RulePermit<C>> {
        match self {
            Self::Bucket(keys) => keys.of_key(key).decide(ask).map(|()| RulePermit::nothing()),
            Self::Pace(keys) => keys.of_key(key).decide(ask).map(|()| RulePermit::nothing()),
            Self::Each { keys, .. } => keys.of_key(key).decide(ask),
        }
    }

    /// Decides on a request of a key, and adds its permit to `permits` if that has an end.
    #[inline]
    pub(super) fn decide_into(
        &self,
        key: &str,
        ask: &Ask<'_>,
        permits: &mut RulePermits<C>,
    ) -> Decision {
        match self {
            Self::Bucket(keys) => keys.of_key(key).ask(ask),
            Self::Pace(keys) => keys.of_key(key).ask(ask),
            Self::Each { keys, .. } => keys.of_key(key).ask(ask).map(|permit| {
                if !permit.is_nothing() {
                    permits.push(permit);
                }
            }),
        }
    }

    pub(super) fn peek(&self, key: &str, ask: &Ask<'_>) -> Option<Decision> {
        match self {
            Self::Bucket(keys) => keys.of_key(key).peek(ask),
            Self::Pace(keys) => keys.of_key(key).peek(ask),
            Self::Each { keys, .. } => keys.of_key(key).peek(ask),
        }
    }

    pub(super) fn foretell(&self, key: &str, ask: &Ask<'_>) -> Option<Decision> {
        match self {
            Self::Bucket(keys) => keys.of_key(key).foretell(ask),
            Self::Pace(keys) => keys.of_key(key).foretell(ask),
            Self::Each { keys, .. } => keys.of_key(key).foretell(ask),
        }
    }

    pub(super) fn with_account<T>(&self, key: &str, read: impl FnOnce(&dyn Account) -> T) -> T {
        match self {
            Self::Bucket(keys) => read(keys.of_key(key).account()),
            Self::Pace(keys) => read(keys.of_key(key).account()),
            Self::Each { keys, .. } => read(keys.of_key(key).account()),
        }
    }

    pub(super) fn watched(&self) -> Option<WatchedState> {
        match self {
            Self::Bucket(keys) => keys.watched(),
            Self::Pace(keys) => keys.watched(),
            Self::Each { keys, .. } => keys.watched(),
        }
    }
}
