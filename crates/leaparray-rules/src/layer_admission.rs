//! The rules and the permits of a request in a layer of `leaparray-tower`.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use leaparray::flow::{Account, Ask, ConcurrencyLimiter, ConcurrencyPermit, Decision, Limiter};
use leaparray::{MonotonicClock, Outcome, Permit, Timestamp};

use crate::key::Key;
use crate::limiter::{RuleClock, RulePermits};
use crate::plan::Admission;

/// The [`Admission`] of a request in a layer. Its permits are smaller.
///
/// ```
/// use http::Request;
/// use leaparray_rules::{RuleSet, Rules};
/// use leaparray_tower::Limits;
/// use std::sync::Arc;
///
/// let rules = Rules::new(Arc::new(leaparray::Registry::new()));
/// rules.apply(&RuleSet::parse("[[rule]]\nname = \"r\"\nresource = \"a\"\nin_flight = 1")?);
/// let resource = rules.registry().resource("a")?;
/// rules.limits().with(&Request::new(()), &resource, |rules| {
///     assert_eq!(rules.unwrap().names().collect::<Vec<_>>(), ["r"]);
/// });
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LayerAdmission<C: RuleClock = MonotonicClock>(Admission<Key, C>);

impl<C: RuleClock> LayerAdmission<C> {
    #[inline]
    pub(crate) const fn new(admission: Admission<Key, C>) -> Self {
        Self(admission)
    }
}

impl<C: RuleClock> Deref for LayerAdmission<C> {
    type Target = Admission<Key, C>;

    #[inline]
    fn deref(&self) -> &Admission<Key, C> {
        &self.0
    }
}

impl<C: RuleClock> Limiter for LayerAdmission<C> {
    type Permit = LayerPermits<C>;

    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision<LayerPermits<C>> {
        self.0.decide(ask).map(LayerPermits::from)
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.0.peek(ask)
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self.0.account()
    }
}

impl<C: RuleClock> fmt::Debug for LayerAdmission<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The [`RulePermits`] of a request in a layer, in fewer words: the layer moves a request with its
/// permits several times, into the future and into the body of its response. Those of a limit in
/// flight need no allocation, and neither does a request without a permit that has to end.
///
/// ```
/// use http::Request;
/// use leaparray::flow::LimiterExt;
/// use leaparray_rules::{LayerPermits, RuleSet, Rules};
/// use leaparray_tower::Limits;
/// use std::sync::Arc;
///
/// let rules = Rules::new(Arc::new(leaparray::Registry::new()));
/// rules.apply(&RuleSet::parse("[[rule]]\nname = \"r\"\nresource = \"a\"\nin_flight = 1")?);
/// let resource = rules.registry().resource("a")?;
/// let take = || {
///     rules.limits().with(&Request::new(()), &resource, |rules| {
///         rules.unwrap().try_acquire().into_result().map(|it| it.into_parts().0)
///     })
/// };
/// let permit: LayerPermits = take()?;
/// assert!(take().is_err());
/// drop(permit);
/// assert!(take().is_ok());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LayerPermits<C: RuleClock = MonotonicClock>(Option<Held<C>>);

#[derive(Debug)]
enum Held<C: RuleClock> {
    InFlight(ConcurrencyPermit<Arc<ConcurrencyLimiter>>),
    Others(Box<RulePermits<C>>),
}

impl<C: RuleClock> LayerPermits<C> {
    #[inline]
    pub(crate) const fn in_flight(permit: ConcurrencyPermit<Arc<ConcurrencyLimiter>>) -> Self {
        Self(Some(Held::InFlight(permit)))
    }

    #[inline]
    fn each(&mut self, end: impl FnOnce(&mut dyn Permit)) {
        match &mut self.0 {
            None => {}
            Some(Held::InFlight(permit)) => end(permit),
            Some(Held::Others(permits)) => end(&mut **permits),
        }
    }
}

impl<C: RuleClock> From<RulePermits<C>> for LayerPermits<C> {
    #[inline]
    fn from(permits: RulePermits<C>) -> Self {
        Self(match permits.into_in_flight() {
            Ok(permit) => permit.map(Held::InFlight),
            Err(permits) => Some(Held::Others(Box::new(permits))),
        })
    }
}

impl<C: RuleClock> Permit for LayerPermits<C> {
    #[inline]
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.each(|it| it.end_at(now, outcome));
    }

    #[inline]
    fn withdraw_at(&mut self, now: Timestamp) {
        self.each(|it| it.withdraw_at(now));
    }

    #[inline]
    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.each(|it| it.drop_at(now, outcome));
    }
}
