//! A limiter of any kind that a rule can have.

use std::sync::Arc;

use leaparray::flow::adaptive::{AdaptiveLimiter, Headroom};
use leaparray::flow::{
    Account, AdaptiveBreaker, Ask, BucketPermits, CircuitBreaker, ConcurrencyLimiter, Decision,
    LeakyBucket, Limiter, LimiterExt, Quota, RateError, SlidingWindowLimiter, TokenBucket, WarmUp,
};

use leaparray::Timestamp;

use super::bucket::Bucket;
#[cfg(feature = "fleet")]
use super::fleet::OverFleet;
use super::gate::Gate;
use super::{MaybeFleet, RuleClock, RulePermit, RulePermits};
use crate::limit::{self, Limit};
use crate::quantity::Per;
use crate::rule::Rule;

/// A limiter of one state.
pub(crate) enum One<C: RuleClock> {
    Window(Arc<SlidingWindowLimiter<C>>),
    #[cfg(feature = "fleet")]
    Fleet(Arc<OverFleet<C>>),
    Bucket(Bucket<C>),
    WarmUp(Arc<WarmUp<C>>),
    Pace(Arc<LeakyBucket<C>>),
    InFlight(Arc<ConcurrencyLimiter>),
    AdaptiveInFlight(Arc<AdaptiveLimiter<Headroom, C>>),
    Breaker(Arc<CircuitBreaker<C>>),
    AdaptiveBreaker(Arc<AdaptiveBreaker<C>>),
    Gate(Arc<Gate<C>>),
}

/// Why a limit that was checked can be made: the checks depend on nothing but the limit.
const CHECKED: &str = "checked when the rule was read";

impl<C: RuleClock> One<C> {
    /// Creates a limiter, or says why there is none with these numbers.
    pub(super) fn new(limit: &Limit, clock: &C) -> Result<Self, String> {
        let clock = clock.clone();
        match *limit {
            Limit::Window { rate, buckets: None } => {
                SlidingWindowLimiter::with_clock(rate.interval, rate.count, clock)
                    .map(|it| Self::Window(Arc::new(it)))
                    .map_err(text)
            }
            Limit::Window { rate, buckets: Some(buckets) } => {
                let window = limit::window(rate.interval, buckets).map_err(text)?;
                SlidingWindowLimiter::of_buckets_with_clock(window, rate.count, clock)
                    .map(|it| Self::Window(Arc::new(it)))
                    .map_err(text)
            }
            #[cfg(feature = "fleet")]
            Limit::Fleet(ref limit) => {
                limit.check()?;
                Ok(Self::Fleet(Arc::new(OverFleet::new(limit, clock))))
            }
            Limit::Bucket { rate, burst, starts_empty } => {
                let bucket = bucket((rate, burst, starts_empty), &clock).map_err(text)?;
                Ok(Self::Bucket(Bucket::alone(bucket)))
            }
            Limit::WarmUp { rate, buckets, period, cold_factor } => {
                let window = limit::window(rate.interval, buckets).map_err(text)?;
                let config = limit::warm_up(period, cold_factor).map_err(text)?;
                WarmUp::with_clock(window, rate.count, config, clock)
                    .map(|it| Self::WarmUp(Arc::new(it)))
                    .map_err(text)
            }
            Limit::Pace { rate, max_wait } => {
                let rate = rate.rate().map_err(text)?;
                Ok(Self::Pace(Arc::new(LeakyBucket::with_clock(rate, max_wait, clock))))
            }
            Limit::InFlight { limit } => {
                Ok(Self::InFlight(Arc::new(ConcurrencyLimiter::new(limit))))
            }
            Limit::AdaptiveInFlight { min, first, max } => {
                let headroom = limit::headroom((min, first, max)).map_err(text)?;
                let limiter = AdaptiveLimiter::with_clock(headroom, clock);
                Ok(Self::AdaptiveInFlight(Arc::new(limiter)))
            }
            Limit::Breaker(ref breaker) => {
                let config = breaker.config().map_err(text)?;
                Ok(Self::Breaker(Arc::new(CircuitBreaker::with_clock(config, clock))))
            }
            Limit::AdaptiveBreaker { k, min_requests } => {
                let config = limit::adaptive_breaker(k, min_requests).map_err(text)?;
                Ok(Self::AdaptiveBreaker(Arc::new(AdaptiveBreaker::with_clock(config, clock))))
            }
            Limit::Refuse(_) => Err("a gate is made with its registry".to_owned()),
        }
    }

    /// Creates the limiter of a limit that was checked.
    pub(super) fn known(limit: &Limit, clock: &C) -> Self {
        Self::new(limit, clock).expect(CHECKED)
    }

    /// Starts what the limiter of a rule needs besides its memory.
    pub(super) fn start(&self, fleet: &MaybeFleet, rule: &Rule) {
        #[cfg(feature = "fleet")]
        if let (Self::Fleet(limiter), Limit::Fleet(limit)) = (self, &rule.limit) {
            limiter.start(fleet.as_ref(), &rule.name, limit);
        }
        #[cfg(not(feature = "fleet"))]
        let _ = (self, fleet, rule);
    }

    pub(super) fn is_started(&self) -> bool {
        #[cfg(feature = "fleet")]
        if let Self::Fleet(limiter) = self {
            return limiter.is_started();
        }
        #[cfg(not(feature = "fleet"))]
        let _ = self;
        true
    }

    /// Ends the limiter, and returns whether it has a state of its own.
    pub(super) fn end(&self) -> bool {
        #[cfg(feature = "fleet")]
        if let Self::Fleet(limiter) = self {
            limiter.end();
            return false;
        }
        #[cfg(not(feature = "fleet"))]
        let _ = self;
        true
    }

    /// Changes the numbers in place, to those of a limit that was checked and is of the same kind.
    pub(super) fn set(&self, limit: &Limit) {
        match (self, limit) {
            (Self::Window(window), Limit::Window { rate, .. }) => {
                window.reconfigure(rate.count).expect(CHECKED);
            }
            #[cfg(feature = "fleet")]
            (Self::Fleet(limiter), Limit::Fleet(limit)) => limiter.set(limit),
            (Self::Bucket(bucket), &Limit::Bucket { rate, burst, .. }) => {
                bucket.reconfigure(rate.rate().expect(CHECKED), burst);
            }
            (Self::WarmUp(limiter), &Limit::WarmUp { rate, period, cold_factor, .. }) => {
                let config = limit::warm_up(period, cold_factor).expect(CHECKED);
                limiter.reconfigure(rate.count, config).expect(CHECKED);
            }
            (Self::Pace(bucket), &Limit::Pace { rate, max_wait }) => {
                bucket.reconfigure(rate.rate().expect(CHECKED), max_wait);
            }
            (Self::InFlight(limiter), &Limit::InFlight { limit }) => limiter.reconfigure(limit),
            (Self::AdaptiveInFlight(limiter), &Limit::AdaptiveInFlight { min, first, max }) => {
                limiter.reconfigure(limit::headroom((min, first, max)).expect(CHECKED));
            }
            (Self::Breaker(breaker), Limit::Breaker(numbers)) => {
                breaker.reconfigure(numbers.config().expect(CHECKED));
            }
            (Self::AdaptiveBreaker(breaker), &Limit::AdaptiveBreaker { k, min_requests }) => {
                breaker.reconfigure(limit::adaptive_breaker(k, min_requests).expect(CHECKED));
            }
            // It is changed to nothing but itself.
            (Self::Gate(_), Limit::Refuse(_)) => {}
            _ => unreachable!("a limiter is changed to its own kind"),
        }
    }

    /// Decides on a request, and adds its permit to `permits` if that has an end.
    #[inline]
    pub(super) fn decide_into(&self, ask: &Ask<'_>, permits: &mut RulePermits<C>) -> Decision {
        match self {
            Self::Window(it) => it.ask(ask),
            #[cfg(feature = "fleet")]
            Self::Fleet(it) => it.ask(ask),
            Self::Bucket(it) => it.ask(ask),
            Self::WarmUp(it) => it.ask(ask),
            Self::Pace(it) => it.ask(ask),
            Self::Gate(it) => it.ask(ask),
            Self::InFlight(it) => it.ask(ask).map(|it| permits.push(it)),
            Self::AdaptiveInFlight(it) => it.ask(ask).map(|it| permits.push(it)),
            Self::Breaker(it) => it.ask(ask).map(|it| permits.push(it)),
            Self::AdaptiveBreaker(it) => it.ask(ask).map(|it| permits.push(it)),
        }
    }

    /// Returns the quota at `now` of a limiter whose permits come back with the time alone.
    pub(super) fn rate_quota(&self, now: Timestamp) -> Option<Quota> {
        match self {
            Self::Window(it) => it.account().quota(now),
            Self::Bucket(it) => it.account().quota(now),
            Self::WarmUp(it) => it.account().quota(now),
            // Those of a pace are spaced: they have no number.
            _ => None,
        }
    }

    /// Returns the permits that are charged at `now`, by a limiter whose permits come back with the
    /// time alone. They may be more than its limit if that was lowered.
    pub(super) fn taken(&self, now: Timestamp) -> Option<u64> {
        let sum = |of: Vec<BucketPermits>| Some(of.iter().map(|it| it.permits).sum());
        match self {
            Self::Window(it) => sum(it.permits_by_bucket_at(now)),
            // Its quota is limited by the curve, and so tells nothing of the window.
            Self::WarmUp(it) => sum(it.permits_by_bucket_at(now)),
            _ => self.rate_quota(now).map(|it| it.limit - it.remaining),
        }
    }

    /// Calls `take` while a window has room for that many permits, as far as it can have it.
    pub(super) fn with_room_for(&self, now: Timestamp, permits: u64, take: impl FnOnce()) {
        let (Self::Window(window), Some(taken)) = (self, self.taken(now)) else { return take() };
        let (limit, needed) = (window.limit(), taken.saturating_add(permits));
        let most = SlidingWindowLimiter::max_limit(window.config());
        window.reconfigure(needed.min(most).max(limit)).expect("no more than the maximum");
        take();
        window.reconfigure(limit).expect("it had this limit");
    }
}

/// Creates a bucket of a rate and a size, which may start empty.
fn bucket<C: RuleClock>(
    (rate, burst, starts_empty): (Per, u64, bool),
    clock: &C,
) -> Result<TokenBucket<C>, RateError> {
    let bucket = TokenBucket::with_clock(rate.rate()?, burst, clock.clone());
    Ok(if starts_empty { bucket.starting_empty() } else { bucket })
}

/// Creates the bucket of a limit that was checked; `None` if it is of another kind.
pub(super) fn known_bucket<C: RuleClock>(limit: &Limit, clock: &C) -> Option<TokenBucket<C>> {
    let &Limit::Bucket { rate, burst, starts_empty } = limit else { return None };
    Some(bucket((rate, burst, starts_empty), clock).expect(CHECKED))
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn text(error: impl ToString) -> String {
    error.to_string()
}

impl<C: RuleClock> Limiter for One<C> {
    type Permit = RulePermit<C>;

    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision<RulePermit<C>> {
        match self {
            Self::Window(it) => it.decide(ask).map(|()| RulePermit::nothing()),
            #[cfg(feature = "fleet")]
            Self::Fleet(it) => it.decide(ask).map(|()| RulePermit::nothing()),
            Self::Bucket(it) => it.decide(ask).map(|()| RulePermit::nothing()),
            Self::WarmUp(it) => it.decide(ask).map(|()| RulePermit::nothing()),
            Self::Pace(it) => it.decide(ask).map(|()| RulePermit::nothing()),
            Self::InFlight(it) => it.decide(ask).map(Into::into),
            Self::AdaptiveInFlight(it) => it.decide(ask).map(Into::into),
            Self::Breaker(it) => it.decide(ask).map(Into::into),
            Self::AdaptiveBreaker(it) => it.decide(ask).map(Into::into),
            Self::Gate(it) => it.decide(ask).map(|()| RulePermit::nothing()),
        }
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        match self {
            Self::Window(it) => it.peek(ask),
            #[cfg(feature = "fleet")]
            Self::Fleet(it) => it.peek(ask),
            Self::Bucket(it) => it.peek(ask),
            Self::WarmUp(it) => it.peek(ask),
            Self::Pace(it) => it.peek(ask),
            Self::InFlight(it) => it.peek(ask),
            Self::AdaptiveInFlight(it) => it.peek(ask),
            Self::Breaker(it) => it.peek(ask),
            Self::AdaptiveBreaker(it) => it.peek(ask),
            Self::Gate(it) => it.peek(ask),
        }
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        match self {
            Self::Window(it) => it.account(),
            #[cfg(feature = "fleet")]
            Self::Fleet(it) => it.account(),
            Self::Bucket(it) => it.account(),
            Self::WarmUp(it) => it.account(),
            Self::Pace(it) => it.account(),
            Self::InFlight(it) => it.account(),
            Self::AdaptiveInFlight(it) => it.account(),
            Self::Breaker(it) => it.account(),
            Self::AdaptiveBreaker(it) => it.account(),
            Self::Gate(it) => it.account(),
        }
    }
}
