//! Several limiters as one.

mod request;

use std::task::Waker;
use std::time::Duration;

use super::{Decision, Limiter, Passed, Quota};
use crate::time::Timestamp;
use request::{Held, How, Outlook, Request, tightest};

/// Several limiters as one: a request is admitted by all of them, or charged to none. For limits
/// such as 100 in a second and 1,000 in a minute.
///
/// `T` is a tuple of two to four limiters of any types, or a `Vec` of limiters of one type, such as
/// [`BoxLimiter`](super::BoxLimiter). The permit is a tuple or a `Vec` of their permits. Give all
/// of them the same clock, for example by a [`Timeline`](crate::Timeline): the combination reads
/// the clock of the first limiter that has one.
///
/// ```
/// use leaparray::flow::{AllOf, FixedWindowLimiter, Limiter};
/// use leaparray::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let each_second =
///     FixedWindowLimiter::with_clock(Duration::from_secs(1), 100, clock.clone())?;
/// let each_minute =
///     FixedWindowLimiter::with_clock(Duration::from_secs(60), 1_000, clock.clone())?;
/// let both = AllOf::new((each_second, each_minute));
/// let admitted = || (0..200).filter(|_| both.try_acquire().is_admitted()).count();
/// assert_eq!(admitted(), 100);
/// assert_eq!(both.limiters().1.available(), 900, "a refused request is charged to neither");
/// for _ in 0..9 {
///     clock.advance(Duration::from_secs(1));
///     assert_eq!(admitted(), 100);
/// }
/// clock.advance(Duration::from_secs(1));
/// let refusal = both.try_acquire().refusal().expect("1,000 in this minute");
/// assert_eq!(refusal.retry_at(), Some(Timestamp::from_secs(120)));
/// assert_eq!(both.limiters().0.available(), 100);
/// # Ok::<_, leaparray::flow::LimitError>(())
/// ```
///
/// # Decision
///
/// 1. Each limiter is asked by [`peek_at`](Limiter::peek_at). If one would refuse, the request is
///    refused, and nothing was charged. If several would refuse, the refusal with the latest time
///    to retry is returned: one that can never succeed before one with a time, and that before an
///    unknown time.
/// 2. The permits are taken, first from the limiters that cannot tell in advance, such as a
///    breaker, and then from the others, each in their order. If one refuses, because another
///    thread was faster or because it could not tell, the permits that were taken are given back,
///    and its refusal is returned.
///
/// A request that has to wait for several limiters waits for the longest of these times.
///
/// So on one thread, a refused request that does not enter a node changes no limiter that can tell
/// in advance. A peek does not ask a node, and a window [with the passes of its
/// node](super::SlidingWindowLimiter::with_node_passes) also counts the requests that entered the
/// node directly. If it refuses a request to [enter](Limiter::enter) a node because of these, the
/// limiters that were asked before it have taken permits and give them back. With the window before
/// them, they take none.
///
/// Between the two steps, other threads may take permits. Each limiter decides by itself, so none
/// of them ever exceeds its limit. A third request can see the permits that a request holds between
/// taking and giving back: it may then be refused, although that request is refused as well. If the
/// thread stalls there, it holds the permits until it goes on.
///
/// A permit is given back by its drop, after it was told that the request was
/// [cancelled](crate::Outcome::Cancelled), or by [`refund_at`](Limiter::refund_at). Some permits
/// cannot be given back in full, and stay charged as if a request had gone ahead:
///
/// - a window's, if another request has opened a later bucket since. They leave the window with
///   their bucket;
/// - a leaky bucket's, if a later request was placed since. Their time passes unused;
/// - a token bucket's, as far as tokens were added since they were taken, and if the time of the
///   request was further ahead of the clock than the lead;
/// - those of a key of a [`KeyedLimiter`](super::KeyedLimiter) whose permit is `()`. Put an
///   [`OfKey`](super::OfKey) last: it is then asked after the other limiters, unless there is no
///   room for the key;
/// - those of a combination in a combination, if it had to make the request wait: see
///   [`refund_at`](Limiter::refund_at) of `AllOf`. Combine the limiters themselves.
///
/// Each limiter is asked twice: by a peek, and for its decision. A tuple allocates nothing, and a
/// `Vec` allocates the permits of an admitted request. A `Vec` of no limiters admits every request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllOf<T>(T);

impl<T> AllOf<T> {
    /// Combines limiters: a tuple of two to four, or a `Vec`.
    #[must_use]
    pub const fn new(limiters: T) -> Self {
        Self(limiters)
    }

    /// Returns the limiters.
    #[must_use]
    pub const fn limiters(&self) -> &T {
        &self.0
    }

    /// Returns the limiters, and consumes the combination.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.0
    }
}

/// Defines the methods of a limiter by these functions of a combination: `decide`, `peek` and those
/// of the limiters.
macro_rules! methods {
    () => {
        /// Returns the time of the first limiter that has a clock.
        #[inline]
        fn now(&self) -> Timestamp {
            self.first_time()
        }

        #[inline]
        fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision<Self::Permit> {
            self.decide(&Request { how: How::AtAnyTime, now, permits })
        }

        #[inline]
        fn try_acquire_for(
            &self,
            node: &dyn Passed,
            now: Timestamp,
            permits: u64,
        ) -> Decision<Self::Permit> {
            self.decide(&Request { how: How::For(node), now, permits })
        }

        #[inline]
        fn try_acquire_at_once(
            &self,
            node: Option<&dyn Passed>,
            now: Timestamp,
            permits: u64,
        ) -> Decision<Self::Permit> {
            self.decide(&Request { how: How::AtOnce(node), now, permits })
        }

        /// Returns the decision that all limiters would make; `None` if none would refuse, and one
        /// cannot tell.
        fn peek_at(&self, now: Timestamp, permits: u64) -> Option<Decision> {
            self.outlook(&Request { how: How::AtAnyTime, now, permits }).decision()
        }
    };
}

macro_rules! tuple {
    ($($limiter:ident $index:tt $held:ident $is_known:ident),*) => {
        impl<$($limiter: Limiter),*> AllOf<($($limiter,)*)> {
            fn first_time(&self) -> Timestamp {
                let none = Timestamp::MIN;
                $(
                    let time = self.0.$index.now();
                    if time > none {
                        return time;
                    }
                )*
                none
            }

            fn outlook(&self, request: &Request<'_>) -> Outlook {
                let mut outlook = Outlook::default();
                $( outlook.add(request.peek(&self.0.$index)); )*
                outlook
            }

            fn decide(&self, request: &Request<'_>) -> Decision<($($limiter::Permit,)*)> {
                let mut outlook = Outlook::default();
                $( let $is_known = outlook.add(request.peek(&self.0.$index)); )*
                if let Some(refusal) = outlook.refusal() {
                    return Decision::Refused(refusal);
                }
                $( let mut $held = Held::nothing(request, &self.0.$index); )*
                for known in [false, true] {
                    $(
                        if $is_known == known && let Err(refusal) = $held.ask() {
                            return Decision::Refused(refusal);
                        }
                    )*
                }
                let ($(Some($held),)*) = ($($held.take(),)*) else { unreachable!("each was asked") };
                let longest = Duration::ZERO$(.max($held.1))*;
                Decision::after(($($held.0,)*), longest)
            }
        }

        impl<$($limiter: Limiter),*> Limiter for AllOf<($($limiter,)*)> {
            type Permit = ($($limiter::Permit,)*);

            methods!();

            /// Gives permits back to each limiter. Returns whether each has given them back.
            ///
            /// A request that had to wait cannot be given back: the result is `false`, and no
            /// limiter is changed. `wait` is the longest of the limiters' waits. A
            /// [`LeakyBucket`](crate::flow::LeakyBucket) with a shorter one might find another
            /// request by it, whose permits are in use.
            fn refund_at(&self, now: Timestamp, permits: u64, wait: Duration) -> bool {
                wait.is_zero() && [$(self.0.$index.refund_at(now, permits, wait)),*].iter().all(|&is_back| is_back)
            }

            /// Returns the quota of the limiter in which the fewest permits remain.
            fn quota_at(&self, now: Timestamp) -> Option<Quota> {
                tightest([$(self.0.$index.quota_at(now)),*])
            }

            fn each_quota_at(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
                $( self.0.$index.each_quota_at(now, visit); )*
            }

            /// Returns whether each limiter is as new.
            fn is_as_new_at(&self, now: Timestamp) -> bool {
                [$(self.0.$index.is_as_new_at(now)),*].iter().all(|&is_as_new| is_as_new)
            }

            fn wake_on_answer(&self, waker: &Waker) -> bool {
                [$(self.0.$index.wake_on_answer(waker)),*].contains(&true)
            }
        }
    };
}

tuple!(A 0 a a_known, B 1 b b_known);
tuple!(A 0 a a_known, B 1 b b_known, C 2 c c_known);
tuple!(A 0 a a_known, B 1 b b_known, C 2 c c_known, D 3 d d_known);

impl<L: Limiter> AllOf<Vec<L>> {
    fn first_time(&self) -> Timestamp {
        let mut times = self.0.iter().map(Limiter::now);
        times.find(|&time| time > Timestamp::MIN).unwrap_or(Timestamp::MIN)
    }

    fn outlook(&self, request: &Request<'_>) -> Outlook {
        let mut outlook = Outlook::default();
        for limiter in &self.0 {
            outlook.add(request.peek(limiter));
        }
        outlook
    }

    fn decide(&self, request: &Request<'_>) -> Decision<Vec<L::Permit>> {
        let outlook = self.outlook(request);
        if let Some(refusal) = outlook.refusal() {
            return Decision::Refused(refusal);
        }
        let held = self.0.iter().map(|limiter| Held::nothing(request, limiter));
        let mut held: Vec<_> = held.collect();
        if outlook.is_unknown() {
            // Asked again, because a `Vec` of what is known would be one more allocation. A limiter
            // whose answer has changed is asked in the second round.
            for held in held.iter_mut().filter(|held| held.cannot_tell()) {
                if let Err(refusal) = held.ask() {
                    return Decision::Refused(refusal);
                }
            }
        }
        for held in held.iter_mut().filter(|held| !held.is_given()) {
            if let Err(refusal) = held.ask() {
                return Decision::Refused(refusal);
            }
        }
        let mut longest = Duration::ZERO;
        let permits = held.into_iter().filter_map(|held| {
            let (permit, wait) = held.take()?;
            longest = longest.max(wait);
            Some(permit)
        });
        let permits = permits.collect();
        Decision::after(permits, longest)
    }
}

impl<L: Limiter> Limiter for AllOf<Vec<L>> {
    type Permit = Vec<L::Permit>;

    methods!();

    /// Gives permits back to each limiter. Returns whether each has given them back.
    ///
    /// A request that had to wait cannot be given back: the result is `false`, and no limiter is
    /// changed. `wait` is the longest of the limiters' waits. A
    /// [`LeakyBucket`](crate::flow::LeakyBucket) with a shorter one might find another request by
    /// it, whose permits are in use.
    fn refund_at(&self, now: Timestamp, permits: u64, wait: Duration) -> bool {
        if !wait.is_zero() {
            return false;
        }
        // Each limiter is asked, also after one that gives nothing back.
        let refunds = self.0.iter().map(|limiter| limiter.refund_at(now, permits, wait));
        refunds.filter(|is_back| !is_back).count() == 0
    }

    /// Returns the quota of the limiter in which the fewest permits remain.
    fn quota_at(&self, now: Timestamp) -> Option<Quota> {
        tightest(self.0.iter().map(|limiter| limiter.quota_at(now)))
    }

    fn each_quota_at(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        for limiter in &self.0 {
            limiter.each_quota_at(now, visit);
        }
    }

    /// Returns whether each limiter is as new.
    fn is_as_new_at(&self, now: Timestamp) -> bool {
        self.0.iter().all(|limiter| limiter.is_as_new_at(now))
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        // Each is called, also after one for which an answer is to come.
        self.0.iter().filter(|limiter| limiter.wake_on_answer(waker)).count() > 0
    }
}
