//! Several limiters as one.

mod held;
mod members;
mod outlook;

use std::task::Waker;
use std::time::Duration;

use crate::flow::contract::{Account, Ask, Decision, Limiter, Quota};
use crate::time::Timestamp;
use members::Members;
pub use outlook::Outlook;

/// Several limiters as one: a request is admitted by all of them, or charged to none. For limits
/// such as 100 in a second and 1,000 in a minute.
///
/// `T` is a tuple of two to four limiters of any types, or a `Vec` of limiters of one type, such as
/// [`BoxLimiter`](crate::flow::BoxLimiter). The permit is a tuple or a `Vec` of their permits. Give
/// all of them the same clock: the combination reads the clock of the first limiter that has one.
///
/// ```
/// use leaparray::flow::{AllOf, FixedWindowLimiter, LimiterExt};
/// use leaparray::{Clock, ManualClock, Timestamp};
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
/// let minute = both.limiters().1.quota_at(clock.now()).expect("a window has one");
/// assert_eq!(minute.remaining, 900, "a refused request is charged to neither");
/// for _ in 0..9 {
///     clock.advance(Duration::from_secs(1));
///     assert_eq!(admitted(), 100);
/// }
/// clock.advance(Duration::from_secs(1));
/// let refusal = both.try_acquire().refusal().expect("1,000 in this minute");
/// assert_eq!(refusal.retry_at(), Some(Timestamp::from_secs(120)));
/// # Ok::<_, leaparray::flow::LimitError>(())
/// ```
///
/// # Decision
///
/// 1. Each limiter is asked by a [peek](Limiter::peek). If one would refuse, the request is
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
/// node](crate::flow::SlidingWindowLimiter::with_node_passes) also counts the requests that entered
/// the node directly. If it refuses a request to [enter](crate::flow::LimiterExt::enter) a node
/// because of these, the limiters that were asked before it have taken permits and give them back.
/// With the window before them, they take none.
///
/// Between the two steps, other threads may take permits. Each limiter decides by itself, so none
/// of them ever exceeds its limit. A third request can see the permits that a request holds between
/// taking and giving back: it may then be refused, although that request is refused as well. If the
/// thread stalls there, it holds the permits until it goes on.
///
/// A permit is given back by its drop, after it was told that the request was
/// [cancelled](crate::Outcome::Cancelled), or by a [refund](Account::refund). Some permits
/// cannot be given back in full, and stay charged as if a request had gone ahead:
///
/// - a window's, if another request has opened a later bucket since. They leave the window with
///   their bucket;
/// - a leaky bucket's, if a later request was placed since. Their time passes unused;
/// - a token bucket's, as far as tokens were added since they were taken, and if the time of the
///   request was further ahead of the clock than the lead;
/// - those of a key of a [`Keyed`](crate::flow::Keyed) limiter whose permit is `()`. Put an
///   [`OfKey`](crate::flow::keyed::OfKey) last: it is then asked after the other limiters, unless
///   there is no room for the key;
/// - those of a combination in a combination, if it had to make the request wait: see
///   [`refund`](Account::refund) of `AllOf`. Combine the limiters themselves.
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
}

impl<T: Members> Limiter for AllOf<T> {
    type Permit = T::Permits;

    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision<T::Permits> {
        self.0.decide(ask)
    }

    /// Returns the decision that all limiters would make together; `None` if one of them cannot
    /// tell, and none would refuse.
    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.0.outlook(ask).decision()
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self
    }
}

impl<T: Members> AllOf<T> {
    /// Returns whether `holds` holds for the account of each limiter. Each is asked, also after one
    /// for which it does not.
    fn holds_for_each(&self, mut holds: impl FnMut(&dyn Account) -> bool) -> bool {
        let mut all = true;
        self.0.each_account(&mut |account| all &= holds(account));
        all
    }
}

impl<T: Members> Account for AllOf<T> {
    /// Returns the time of the first limiter that has a clock.
    #[inline]
    fn now(&self) -> Timestamp {
        self.0.first_time()
    }

    /// Returns the quota of the limiter in which the fewest permits remain: the first one of
    /// several.
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        let mut tightest: Option<Quota> = None;
        self.0.each_account(&mut |account| {
            let is_tighter =
                |it: &Quota| tightest.is_none_or(|other| it.remaining < other.remaining);
            if let Some(quota) = account.quota(now).filter(is_tighter) {
                tightest = Some(quota);
            }
        });
        tightest
    }

    fn each_quota(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.0.each_account(&mut |account| account.each_quota(now, visit));
    }

    /// Returns whether each limiter is as new.
    fn is_as_new(&self, now: Timestamp) -> bool {
        self.holds_for_each(|account| account.is_as_new(now))
    }

    /// Gives permits back to each limiter. Returns whether each has given them back.
    ///
    /// A request that had to wait cannot be given back: the result is `false`, and no limiter is
    /// changed. `wait` is the longest of the limiters' waits. A
    /// [`LeakyBucket`](crate::flow::LeakyBucket) with a shorter one might find another request by
    /// it, whose permits are in use.
    fn refund(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        wait.is_zero() && self.holds_for_each(|account| account.refund(ask, wait))
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        !self.holds_for_each(|account| !account.wake_on_answer(waker))
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        let mut notes = Vec::new();
        self.0.each_account(&mut |account| notes.extend(account.note_wait(permits)));
        (!notes.is_empty()).then(|| Box::new(notes) as Box<dyn Send + Sync>)
    }
}
