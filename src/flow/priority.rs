//! Classes of requests that give way to each other under load.
//!
//! A limit in flight admits requests in the order in which they come. Under load, a batch job that
//! sends a thousand requests then displaces the payments. With [`Classes`], each class of requests
//! may use up to a share of the limit: the payments all of it, and the batch job up to 60 %. The
//! rest is a reserve for the classes above.
//!
//! ```
//! use leaparray::flow::priority::Classes;
//! use leaparray::flow::{ConcurrencyLimiter, LimiterExt, Reason};
//! use std::sync::Arc;
//!
//! // Payments, requests of users, and batch jobs.
//! let limit = Arc::new(ConcurrencyLimiter::new(10));
//! let classes = Classes::new(limit, &[1.0, 0.9, 0.6])?;
//! let [payments, users, batch] = [0, 1, 2].map(|class| classes.class(class));
//! let jobs: Vec<_> = std::iter::from_fn(|| batch.try_acquire().at_once().ok()).collect();
//! assert_eq!(jobs.len(), 6);
//! let refusal = batch.try_acquire().refusal().expect("the rest is for the other classes");
//! assert_eq!(refusal.reason, Reason::GIVES_WAY);
//! let requests: Vec<_> = std::iter::from_fn(|| users.try_acquire().at_once().ok()).collect();
//! assert_eq!(requests.len(), 3);
//! assert!(payments.try_acquire().is_admitted());
//! # Ok::<_, leaparray::flow::priority::ClassError>(())
//! ```
//!
//! In the layer of `leaparray-tower`, a function of yours takes the class from the request:
//! `Chosen(move |request, _| Some(OfClass::new(Arc::clone(&classes), class_of(request))))`.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::task::Waker;

use super::adaptive::LimitAlgorithm;
use super::shadow;
use super::share::{AtomicShare, Share};
use super::{AdaptiveLimiter, ConcurrencyLimiter};
use crate::flow::contract::{
    Account, Ask, Decision, Limiter, Named, Quota, QuotaUnit, Refusal, Retry,
};
use crate::node::{Outcome, Permit, Reason};
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, Timestamp};
use sealed::GiveBack;

impl Reason {
    /// The reason of a refusal of a request that finds permits, of which its
    /// [class](crate::flow::priority) has none: they are for the classes above.
    pub const GIVES_WAY: Self = Self::Custom("the request gives way to higher classes");
}

/// A limit of the permits in flight, which [`Classes`] divides.
pub trait LimitInForce {
    /// Returns the limit that is now in force.
    fn limit_in_force(&self) -> u64;

    /// Notes that a request was refused for want of this limit, by a limiter that divides it and
    /// keeps the permits that are left. A limit that adapts itself then counts as reached. By
    /// default, it does nothing.
    fn note_reached(&self) {}
}

impl LimitInForce for ConcurrencyLimiter {
    #[inline]
    fn limit_in_force(&self) -> u64 {
        self.limit()
    }
}

impl<A: LimitAlgorithm, C: Clock> LimitInForce for AdaptiveLimiter<A, C> {
    #[inline]
    fn limit_in_force(&self) -> u64 {
        self.limit()
    }

    fn note_reached(&self) {
        self.reach();
    }
}

impl<L: LimitInForce> LimitInForce for Named<L> {
    #[inline]
    fn limit_in_force(&self) -> u64 {
        self.limiter().limit_in_force()
    }

    fn note_reached(&self) {
        self.limiter().note_reached();
    }
}

impl<L: LimitInForce + ?Sized> LimitInForce for &L {
    #[inline]
    fn limit_in_force(&self) -> u64 {
        (**self).limit_in_force()
    }

    fn note_reached(&self) {
        (**self).note_reached();
    }
}

impl<L: LimitInForce + ?Sized> LimitInForce for Arc<L> {
    #[inline]
    fn limit_in_force(&self) -> u64 {
        (**self).limit_in_force()
    }

    fn note_reached(&self) {
        (**self).note_reached();
    }
}

/// A limit in flight that is divided among classes of requests.
///
/// A request of a class is admitted only if the permits in use of all classes, with its own, are at
/// most the share of its class of the limit in force, rounded down and at least one permit:
/// exactly, under any race. So of a limit of 100, a class with a share of 0.6 and the classes below
/// it never hold more than 60 permits, and 40 are left for the classes above. A request of a class
/// is refused only if the permits of its share are in use; those below it are then refused as well.
/// The permits of higher classes count as well: while they use 60, the lower class gets none.
///
/// Permits in flight are not taken back. If lower classes hold their whole share and the demand of
/// a higher class rises, it finds the reserve at once, and then each permit that comes back, since
/// the lower ones are refused until the use is below their share. So a higher class is refused for
/// the sake of a lower one only if its demand rises by more than the reserve within one response
/// time.
///
/// With at least one permit, no class starves under a low limit. A request for more permits than
/// its class may use is refused, also one that an adaptive limit would admit alone.
///
/// The limit may move, as the limit of an [`AdaptiveLimiter`] does: a decision uses the limit that
/// it finds. The limiter inside decides as well, and learns from the calls of all classes. If only
/// lower classes have demand, they use their share and not the whole limit. Their refusals do not
/// count as [reaching](LimitInForce::note_reached) the limit, so it does not grow by them: by their
/// calls alone, it would grow until their share is all that the backend bears, without a reserve
/// for the classes above. So begin with a limit of which their share is enough.
///
/// A waiter of a [`WaitQueue`](crate::flow::WaitQueue) over a class is woken when a permit of that
/// queue is given back. Call [`WaitQueue::recheck`](crate::flow::WaitQueue::recheck) after a permit
/// of another class.
///
/// # Orderings
///
/// A permit is given back to the limiter first, and then to the classes with Release; taking from
/// the classes acquires. So a request that finds room in its class finds it in the limiter, unless
/// the limit has fallen, or the limiter is asked without its class.
#[derive(Debug)]
pub struct Classes<L> {
    limiter: L,
    shares: Box<[AtomicShare]>,
    in_use: AtomicU64,
}

/// The error of [`Classes::new`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClassError {
    /// There is no class.
    NoClass,
    /// A share is below 0 or above 1, or is not a number.
    Share {
        /// The number of the class.
        class: usize,
        /// The share that was asked for.
        share: f64,
    },
    /// There are more shares than classes.
    TooMany {
        /// The number of classes.
        classes: usize,
    },
    /// The share of a class is above that of the class before it.
    Rising {
        /// The number of the class.
        class: usize,
    },
}

impl fmt::Display for ClassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClass => f.write_str("a limit without classes admits nothing"),
            Self::Share { class, share } => {
                write!(f, "the share {share} of class {class} is not between 0 and 1")
            }
            Self::TooMany { classes } => write!(f, "there are more shares than {classes} classes"),
            Self::Rising { class } => {
                write!(f, "the share of class {class} is above that of the higher class before it")
            }
        }
    }
}

impl Error for ClassError {}

impl<L> Classes<L> {
    /// Divides the limit of `limiter` among classes. The first share belongs to the highest class,
    /// and no share is above the one before it. Shares are in steps of a millionth.
    ///
    /// # Errors
    ///
    /// Returns a [`ClassError`] if there is no share, if one is not between 0 and 1, or if one is
    /// above that before it.
    ///
    /// ```
    /// use leaparray::flow::AdaptiveLimiter;
    /// use leaparray::flow::priority::{ClassError, Classes};
    /// use std::sync::Arc;
    ///
    /// let limit = Arc::new(AdaptiveLimiter::default());
    /// assert!(Classes::new(Arc::clone(&limit), &[1.0, 0.8]).is_ok());
    /// let error = Classes::new(limit, &[0.8, 1.0]).unwrap_err();
    /// assert_eq!(error, ClassError::Rising { class: 1 });
    /// ```
    pub fn new(limiter: L, shares: &[f64]) -> Result<Self, ClassError> {
        let shares = checked(shares)?.into_iter().map(AtomicShare::new).collect();
        Ok(Self { limiter, shares, in_use: AtomicU64::new(0) })
    }

    /// [Changes](crate::flow#changes-in-place) the shares. Permits in use stay. Classes that
    /// `shares` leaves out get the last one of them.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new), and [`ClassError::TooMany`] if there are more shares than
    /// classes. Nothing is then changed.
    ///
    /// ```
    /// use leaparray::flow::priority::Classes;
    /// use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
    /// use std::sync::Arc;
    ///
    /// let classes = Classes::new(Arc::new(ConcurrencyLimiter::new(10)), &[1.0, 0.5])?;
    /// classes.reconfigure(&[1.0, 0.2])?;
    /// assert!(classes.class(1).try_acquire_many(3).is_refused());
    /// # Ok::<_, leaparray::flow::priority::ClassError>(())
    /// ```
    pub fn reconfigure(&self, shares: &[f64]) -> Result<(), ClassError> {
        let next = checked(shares)?;
        if next.len() > self.shares.len() {
            return Err(ClassError::TooMany { classes: self.shares.len() });
        }
        let last = next[next.len() - 1];
        for (class, share) in self.shares.iter().enumerate() {
            share.store(next.get(class).copied().unwrap_or(last));
        }
        Ok(())
    }

    /// Returns the limiter of a class: see [`OfClass::new`].
    pub const fn class(&self, class: usize) -> OfClass<&Self> {
        OfClass::new(self, class)
    }

    /// Returns the limiter that is divided.
    #[must_use]
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }

    /// Returns the number of permits in use of all classes.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }
}

impl<L: Limiter + LimitInForce> Classes<L> {
    /// Returns the limit in force, and the part of it that a request may use.
    fn limits(&self, may_use: MayUse) -> (u64, u64) {
        let limit = self.limiter.limit_in_force();
        let share = match may_use {
            // Relaxed: a decision uses the share that it finds.
            MayUse::OfClass(class) => self.shares[class.min(self.shares.len() - 1)].load(),
            MayUse::Share(share) => share,
        };
        (limit, share.of(limit).max(1).min(limit))
    }

    /// Takes permits for a request.
    fn take(&self, may_use: MayUse, ask: &Ask<'_>) -> Result<(), Refusal> {
        let (limit, part) = self.limits(may_use);
        let take = |in_use| admits(part, in_use, ask.permits()).then(|| in_use + ask.permits());
        // Acquire: pairs with the Release in `Place::drop`.
        match self.in_use.fetch_update(Ordering::Acquire, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(in_use) => Err(self.refuse(limit, in_use, ask)),
        }
    }

    #[cold]
    fn refuse(&self, limit: u64, in_use: u64, ask: &Ask<'_>) -> Refusal {
        if ask.permits() <= limit.saturating_sub(in_use) {
            return Refusal::new(Reason::GIVES_WAY, Retry::Unknown);
        }
        // It may be more than the limiter can ever admit.
        let of_limiter = ask.foretold_by(&self.limiter).and_then(|decision| decision.refusal());
        of_limiter.unwrap_or_else(|| Refusal::new(Reason::LimitReached, Retry::Unknown))
    }
}

/// Returns shares that do not rise.
fn checked(shares: &[f64]) -> Result<Vec<Share>, ClassError> {
    if shares.is_empty() {
        return Err(ClassError::NoClass);
    }
    let of = |(class, &share)| Share::new(share, 1.0).ok_or(ClassError::Share { class, share });
    let shares = shares.iter().enumerate().map(of).collect::<Result<Vec<_>, _>>()?;
    match shares.windows(2).position(|pair| pair[1] > pair[0]) {
        Some(before) => Err(ClassError::Rising { class: before + 1 }),
        None => Ok(shares),
    }
}

/// Returns whether a class that may use `part` permits admits a request. The sum of the permits
/// then does not overflow.
const fn admits(part: u64, in_use: u64, permits: u64) -> bool {
    permits <= part.saturating_sub(in_use)
}

/// The limiter of the requests of one class: see [`Classes`].
#[derive(Clone, Copy, Debug)]
pub struct OfClass<R> {
    classes: R,
    may_use: MayUse,
}

/// The part of the limit that a request may use.
#[derive(Clone, Copy, Debug)]
enum MayUse {
    /// The share of the class with that number.
    OfClass(usize),
    /// A share that the caller knows.
    Share(Share),
}

impl<R> OfClass<R> {
    /// Creates the limiter of a class from a reference to the classes, such as an
    /// `Arc`. Class 0 is the highest. A number that no class has is the lowest
    /// class.
    ///
    /// ```
    /// use leaparray::flow::priority::{Classes, OfClass};
    /// use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
    /// use std::sync::Arc;
    ///
    /// let limit = Arc::new(ConcurrencyLimiter::new(2));
    /// let classes = Arc::new(Classes::new(limit, &[1.0, 0.5])?);
    /// let low = OfClass::new(Arc::clone(&classes), 9);
    /// let call = low.try_acquire().at_once().expect("1 of 2");
    /// assert!(low.try_acquire().is_refused());
    /// std::thread::spawn(move || drop(call)).join().expect("it does not panic");
    /// assert_eq!(classes.in_use(), 0);
    /// # Ok::<_, leaparray::flow::priority::ClassError>(())
    /// ```
    pub const fn new(classes: R, class: usize) -> Self {
        Self { classes, may_use: MayUse::OfClass(class) }
    }

    /// Creates the limiter of the requests that may use this share of the limit, whatever the
    /// shares of the classes are. They count as all others do. So a program that finds the shares
    /// of its requests elsewhere, such as in a configuration that it replaces as a whole, decides
    /// each request by the share of one version.
    ///
    /// ```
    /// use leaparray::flow::priority::{Classes, OfClass};
    /// use leaparray::flow::shadow::Share;
    /// use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
    /// use std::sync::Arc;
    ///
    /// let classes = Classes::new(Arc::new(ConcurrencyLimiter::new(10)), &[1.0])?;
    /// let half = OfClass::with_share(&classes, Share::percent(50)?);
    /// let calls: Vec<_> = std::iter::from_fn(|| half.try_acquire().at_once().ok()).collect();
    /// assert_eq!(calls.len(), 5);
    /// assert!(classes.class(0).try_acquire().is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub const fn with_share(classes: R, share: shadow::Share) -> Self {
        Self { classes, may_use: MayUse::Share(Share::of_mode(share)) }
    }
}

impl<L, R> Limiter for OfClass<R>
where
    L: Limiter + LimitInForce,
    R: Deref<Target = Classes<L>> + Clone,
{
    type Permit = ClassPermit<L::Permit, R>;

    fn decide(&self, ask: &Ask<'_>) -> Decision<Self::Permit> {
        if let Err(refusal) = self.classes.take(self.may_use, ask) {
            return Decision::Refused(refusal);
        }
        // Given back if the limiter refuses the request, or panics.
        let place = Place { classes: self.classes.clone(), permits: ask.permits() };
        ask.decided_by(&self.classes.limiter).map(|permit| ClassPermit { permit, _place: place })
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        let (limit, part) = self.classes.limits(self.may_use);
        let in_use = self.classes.in_use();
        if admits(part, in_use, ask.permits()) {
            return ask.foretold_by(&self.classes.limiter);
        }
        Some(Decision::Refused(self.classes.refuse(limit, in_use, ask)))
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl<L, R> Account for OfClass<R>
where
    L: Limiter + LimitInForce,
    R: Deref<Target = Classes<L>> + Clone,
{
    fn now(&self) -> Timestamp {
        self.classes.limiter.account().now()
    }

    /// Returns the permits that the class may use, and how many of them are left.
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        let ((_, part), in_use) = (self.classes.limits(self.may_use), self.classes.in_use());
        let reset = (in_use == 0).then_some(now);
        let quota = Quota::new(part, part.saturating_sub(in_use), reset);
        Some(quota.with_unit(QuotaUnit::InFlight))
    }

    fn is_as_new(&self, now: Timestamp) -> bool {
        self.classes.in_use() == 0 && self.classes.limiter.account().is_as_new(now)
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.classes.limiter.account().wake_on_answer(waker)
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        self.classes.limiter.account().note_wait(permits)
    }
}

/// The permit of a request of a class. Dropping it gives the permits back.
///
/// `P` is the permit of the limiter that is divided, and `R` the reference to the classes.
#[must_use = "a permit that is dropped at once limits nothing"]
pub struct ClassPermit<P, R: Deref<Target: GiveBack>> {
    /// Dropped before the place: see the orderings of [`Classes`].
    permit: P,
    _place: Place<R>,
}

impl<P: Permit, R: Deref<Target: GiveBack>> Permit for ClassPermit<P, R> {
    #[inline]
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.permit.end_at(now, outcome);
    }

    #[inline]
    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.permit.drop_at(now, outcome);
    }

    fn withdraw_at(&mut self, now: Timestamp) {
        self.permit.withdraw_at(now);
    }
}

impl<P: fmt::Debug, R: Deref<Target: GiveBack>> fmt::Debug for ClassPermit<P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClassPermit").field(&self.permit).finish()
    }
}

/// The permits of a request in the count of the classes. Given back by a drop.
struct Place<R: Deref<Target: GiveBack>> {
    classes: R,
    permits: u64,
}

impl<R: Deref<Target: GiveBack>> Drop for Place<R> {
    #[inline]
    fn drop(&mut self) {
        self.classes.give_back(self.permits);
    }
}

mod sealed {
    /// Classes of any limiter, for a permit that does not name it.
    pub trait GiveBack {
        fn give_back(&self, permits: u64);
    }
}

impl<L> GiveBack for Classes<L> {
    #[inline]
    fn give_back(&self, permits: u64) {
        // Release: pairs with the Acquire in `take`.
        self.in_use.fetch_sub(permits, Ordering::Release);
    }
}
