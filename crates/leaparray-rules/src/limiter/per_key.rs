//! A limiter of any kind for each key.

use std::sync::{Arc, Mutex, PoisonError};

use leaparray::Timestamp;
use leaparray::flow::shadow::Share;
use leaparray::flow::watch::{Watch, WatchedState};
use leaparray::flow::{
    Account, Ask, Decision, Keyed, LeakyBucket, Limiter, LimiterExt, TokenBucket,
};

use super::by_class::ByClass;
use super::one::{One, known_bucket};
use super::{ASKED, RuleClock, RulePermit, RulePermits};
use crate::limit::Limit;
use crate::part::Part;

/// A limiter for each key. Buckets have a word for each, and the other kinds a limiter.
pub(crate) enum PerKey<C: RuleClock> {
    Bucket(Arc<Keyed<String, TokenBucket<C>>>),
    Pace(Arc<Keyed<String, LeakyBucket<C>>>),
    Each(Each<C, One<C>>),
    /// Limits in flight, of which each request may use a share.
    ByClass(Each<C, ByClass<C>>),
}

/// A limiter of its own for each key.
pub(crate) struct Each<C: RuleClock, L: 'static>
where
    Arc<L>: Limiter,
{
    keys: Arc<Keyed<String, (Make<L>, C)>>,
    /// Makes the limiter that a new key would get.
    fresh: Make<L>,
    /// The numbers for the limiter of a new key.
    limit: Arc<Mutex<Limit>>,
    max_keys: usize,
}

/// The account of a key without a place: keys whose number is not known share its quota.
struct NoPlace<'a>(&'a dyn Account);

impl Account for NoPlace<'_> {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// Makes the limiter of a new key.
type Make<L> = Box<dyn Fn() -> L + Send + Sync>;

/// Why a number of keys can be stored.
const CHECKED: &str = "the number of keys was checked when the rule was read";

impl<C: RuleClock, L: 'static> Each<C, L>
where
    Arc<L>: Limiter,
{
    fn new(limit: &Limit, max_keys: usize, clock: &C, make: fn(&Limit, &C) -> L) -> Self {
        let limit = Arc::new(Mutex::new(limit.clone()));
        let maker = || -> Make<L> {
            let (limit, clock) = (Arc::clone(&limit), clock.clone());
            Box::new(move || make(&limit.lock().unwrap_or_else(PoisonError::into_inner), &clock))
        };
        let keys = Keyed::new((maker(), clock.clone()), max_keys).expect(CHECKED).with_overflow();
        Self { keys: Arc::new(keys), fresh: maker(), limit, max_keys }
    }

    /// Changes the numbers of all keys in place. `set` changes those of one.
    fn set(&self, to: &Limit, set: impl Fn(&L)) {
        // Before the visit: a key that is inserted beside it has the new numbers.
        self.limit.lock().unwrap_or_else(PoisonError::into_inner).clone_from(to);
        self.keys.for_each_limiter(set);
    }
}

impl<C: RuleClock> Each<C, ByClass<C>> {
    /// Decides on a request of a key, which may use a share of the limit.
    fn decide(&self, key: &str, share: Share, ask: &Ask<'_>) -> Decision<RulePermit<C>> {
        self.keys.decide_by(key, ask, |own, ask| own.decide_with(share, ask))
    }

    /// Returns the decision that a request would get. It does not store the key: another rule may
    /// refuse the request, and an adaptive limit stays once it is stored.
    fn peek(&self, key: &str, share: Share, ask: &Ask<'_>) -> Option<Decision> {
        self.keys.peek_by(key, ask, |own, ask| own.peek_with(share, ask))
    }

    fn with_account<T>(&self, key: &str, share: Share, read: impl FnOnce(&dyn Account) -> T) -> T {
        match self.stored(key) {
            Some(limiter) => limiter.with_account(share, read),
            None => (self.fresh)().with_account(share, |fresh| {
                if self.keys.len() < self.max_keys { read(fresh) } else { read(&NoPlace(fresh)) }
            }),
        }
    }

    /// Returns the limiter of a key, if it is stored.
    fn stored(&self, key: &str) -> Option<Arc<ByClass<C>>> {
        self.keys.refusals(key)?;
        self.keys.limiter_of(key)
    }
}

/// Returns a limiter that was just made.
fn sole<T>(limiter: Arc<T>) -> T {
    Arc::into_inner(limiter).expect("nothing else has it")
}

impl<C: RuleClock> PerKey<C> {
    /// Creates the limiters of a limit that was checked.
    pub(super) fn new(limit: &Limit, max_keys: usize, clock: &C) -> Self {
        if let Some(bucket) = known_bucket(limit, clock) {
            let keys = Keyed::new(bucket, max_keys).expect(CHECKED).with_overflow();
            return Self::Bucket(Arc::new(keys));
        }
        match One::known(limit, clock) {
            One::Pace(bucket) => {
                let bucket = sole(bucket);
                Self::Pace(Arc::new(Keyed::new(bucket, max_keys).expect(CHECKED).with_overflow()))
            }
            _ => Self::Each(Each::new(limit, max_keys, clock, One::known)),
        }
    }

    /// Creates the limits in flight of a limit that was checked, of which each request may use a
    /// share.
    pub(super) fn by_class(limit: &Limit, max_keys: usize, clock: &C) -> Self {
        Self::ByClass(Each::new(limit, max_keys, clock, ByClass::new))
    }

    /// Changes the numbers of all keys in place, to those of a limit that was checked.
    pub(super) fn set(&self, to: &Limit, clock: &C) {
        match self {
            Self::Bucket(keys) => {
                if let Some(bucket) = known_bucket(to, clock) {
                    keys.reconfigure(bucket);
                }
            }
            Self::Pace(keys) => {
                if let One::Pace(bucket) = One::known(to, clock) {
                    keys.reconfigure(sole(bucket));
                }
            }
            Self::Each(each) => each.set(to, |it| it.set(to)),
            Self::ByClass(each) => each.set(to, |it| it.set(to)),
        }
    }

    #[inline]
    pub(super) fn decide(
        &self,
        key: &str,
        part: Part<'_>,
        ask: &Ask<'_>,
    ) -> Decision<RulePermit<C>> {
        match self {
            Self::Bucket(keys) => keys.of_key(key).decide(ask).map(|()| RulePermit::nothing()),
            Self::Pace(keys) => keys.of_key(key).decide(ask).map(|()| RulePermit::nothing()),
            Self::Each(each) => each.keys.of_key(key).decide(ask),
            Self::ByClass(each) => each.decide(key, part.share(), ask),
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
            Self::Each(each) => each.keys.of_key(key).ask(ask).map(|permit| {
                if !permit.is_nothing() {
                    permits.push(permit);
                }
            }),
            Self::ByClass(_) => unreachable!("{ASKED}"),
        }
    }

    pub(super) fn peek(&self, key: &str, part: Part<'_>, ask: &Ask<'_>) -> Option<Decision> {
        match self {
            Self::Bucket(keys) => keys.of_key(key).peek(ask),
            Self::Pace(keys) => keys.of_key(key).peek(ask),
            Self::Each(each) => each.keys.of_key(key).peek(ask),
            Self::ByClass(each) => each.peek(key, part.share(), ask),
        }
    }

    pub(super) fn foretell(&self, key: &str, ask: &Ask<'_>) -> Option<Decision> {
        match self {
            Self::Bucket(keys) => keys.of_key(key).foretell(ask),
            Self::Pace(keys) => keys.of_key(key).foretell(ask),
            Self::Each(each) => each.keys.of_key(key).foretell(ask),
            Self::ByClass(_) => unreachable!("{ASKED}"),
        }
    }

    pub(super) fn with_account<T>(
        &self,
        key: &str,
        part: Part<'_>,
        read: impl FnOnce(&dyn Account) -> T,
    ) -> T {
        match self {
            Self::Bucket(keys) => read(keys.of_key(key).account()),
            Self::Pace(keys) => read(keys.of_key(key).account()),
            Self::Each(each) => read(each.keys.of_key(key).account()),
            Self::ByClass(each) => each.with_account(key, part.share(), read),
        }
    }

    pub(super) fn watched(&self) -> Option<WatchedState> {
        match self {
            Self::Bucket(keys) => keys.watched(),
            Self::Pace(keys) => keys.watched(),
            Self::Each(each) => each.keys.watched(),
            Self::ByClass(each) => each.keys.watched(),
        }
    }
}
