//! A limiter of the requests in flight.

mod counted;
mod epoch;
mod held;
mod permit;
#[cfg(all(test, not(loom)))]
mod tests;

use crossbeam_utils::CachePadded;

pub(in crate::flow) use counted::{CountedPermits, PermitCount};
pub use permit::ConcurrencyPermit;

use held::Held;

use crate::flow::contract::lend;
use crate::flow::contract::{Account, Ask, Decision, Quota, QuotaUnit, Refusal, Retry};
use crate::flow::permits::{Shares, Stripes};
use crate::node::Reason;
use crate::sync::{AtomicU64, Ordering, RacyOnce};
use crate::time::Timestamp;

/// A limiter of the requests in flight. An admitted request holds a permit. Dropping the permit
/// makes room for another request.
///
/// The limiter has no clock: the time at which a request will end is not known, so a refusal has no
/// time to ask again. To wait for a permit, in turn with other requests, put the limiter into a
/// [`WaitQueue`](crate::flow::WaitQueue).
///
/// # Threads
///
/// The permits in use are one atomic, which a refused request does not write. While threads compete
/// for it, and permits for at least 16 requests are left, the permits are divided among *stripes*,
/// words on cache lines of their own, to which they are also given back. So decisions scale with
/// threads, and stay exact: no more permits than the limit are held, and no request is refused if,
/// during the whole call, as many permits are left as it asks for and the limit stays the same. The
/// stripes are allocated when that first happens: 128 bytes for each of 16, and 128 bytes more. The
/// permits go back into the one word when no stripe has as many as a request asks for, and when
/// they are counted, as by [`in_use`](Self::in_use). They are divided at most 2³⁹ times over the
/// life of the limiter. After that, threads compete for the one word.
///
/// A request that gets the permit of an earlier request sees everything that was done under it.
///
/// ```
/// use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
///
/// let limit = ConcurrencyLimiter::new(2);
/// let (first, second) = (limit.try_acquire(), limit.try_acquire());
/// assert!(first.is_admitted() && second.is_admitted());
/// assert!(limit.try_acquire().is_refused());
/// drop(first);
/// assert!(limit.try_acquire().is_admitted());
/// assert_eq!(limit.in_use(), 1);
/// ```
#[derive(Debug)]
pub struct ConcurrencyLimiter {
    limit: AtomicU64,
    /// A direct or a striped word: see [`epoch`].
    word: AtomicU64,
    /// Made when an epoch first begins.
    stripes: RacyOnce<CachePadded<Stripes>>,
}

impl ConcurrencyLimiter {
    /// The highest limit: 2⁶³ − 1.
    pub const MAX_LIMIT: u64 = held::STRIPED - 1;

    /// Creates a limiter of at most `limit` permits at once. A limit above
    /// [`MAX_LIMIT`](Self::MAX_LIMIT) is that limit. With a limit of zero, every request for at
    /// least one permit is refused.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        let limit = AtomicU64::new(limit.min(Self::MAX_LIMIT));
        Self { limit, word: AtomicU64::new(0), stripes: RacyOnce::new() }
    }

    /// Returns the maximum number of permits at once.
    #[must_use]
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// [Changes](crate::flow#changes-in-place) the limit. Permits that are held stay valid, even if
    /// their number exceeds the new limit.
    ///
    /// ```
    /// use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
    ///
    /// let limit = ConcurrencyLimiter::new(2);
    /// let both = [limit.try_acquire(), limit.try_acquire()];
    /// limit.reconfigure(1);
    /// let [first, second] = both;
    /// drop(first);
    /// assert!(limit.try_acquire().is_refused());
    /// drop(second);
    /// assert!(limit.try_acquire().is_admitted());
    /// ```
    pub fn reconfigure(&self, limit: u64) {
        // Relaxed: the limit orders nothing. A decision uses the value that it finds.
        self.limit.store(limit.min(Self::MAX_LIMIT), Ordering::Relaxed);
    }

    /// Returns the number of permits that are held, exactly, at one moment. Permits in
    /// [stripes](#threads) go back into one word, so this is meant for a monitor, and not for each
    /// request.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.count()
    }

    /// Asks for permits. The refusal of a request for more permits than the limit has the reason
    /// [`Reason::MoreThanLimit`].
    #[inline]
    fn admit(&self, ask: &Ask<'_>) -> Result<Held, Refusal> {
        self.take(ask.permits())
    }

    #[expect(clippy::unnecessary_wraps, reason = "as of the controllers that cannot tell")]
    fn foretold(&self, ask: &Ask<'_>) -> Option<Decision> {
        Some(self.peek(ask.permits()))
    }

    /// Takes `permits` permits.
    #[inline]
    fn take(&self, permits: u64) -> Result<Held, Refusal> {
        if permits == 0 {
            return Ok(Held::of_word(0));
        }
        let mut word = self.load();
        loop {
            if word & held::STRIPED != 0 {
                match self.take_striped(word, permits) {
                    Ok(held) => return Ok(held),
                    Err(found) => word = found,
                }
                continue;
            }
            let limit = self.limit();
            if let Some(refusal) = refuse(limit, word, permits) {
                return Err(refusal);
            }
            // Acquire: pairs with the Release in `give_back`. A request that gets the permit of an
            // earlier request happens after everything that was done under that permit.
            match self.word.compare_exchange_weak(
                word,
                word + permits,
                Ordering::Acquire,
                // Acquire: as in `load`.
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(Held::of_word(permits)),
                // Retried at once if few permits are left: this thread has the cache line now.
                Err(found) if !Shares::is_worth_lent(limit - word, permits) => word = found,
                Err(found) => word = self.contend(word, found, permits),
            }
        }
    }

    #[inline]
    fn give_back(&self, held: Held) {
        if !held.is_one_of_word() {
            self.give_back_compared(held.permits());
            return;
        }
        // Without a load before: it would take the cache line from another thread twice.
        //
        // Release: pairs with the Acquire in `take`. A word that follows continues the release
        // sequence.
        let word = self.word.fetch_sub(1, Ordering::Release);
        if word & held::STRIPED != 0 {
            self.check_balance(word);
        }
    }

    #[inline]
    fn load(&self) -> u64 {
        // Acquire: pairs with the Release with which an epoch begins. A thread that finds the word
        // striped finds the stripes.
        self.word.load(Ordering::Acquire)
    }
}

/// Returns the refusal of a request for `permits` permits, if fewer are left of `limit`.
#[inline]
fn refuse(limit: u64, in_use: u64, permits: u64) -> Option<Refusal> {
    if permits <= limit.saturating_sub(in_use) {
        return None;
    }
    let never = permits > limit;
    let refusal = Refusal::new(Reason::LimitReached, Retry::Unknown);
    Some(if never { Refusal::never() } else { refusal })
}

fn quota(limit: u64, in_use: u64, now: Timestamp) -> Quota {
    let reset = (in_use == 0).then_some(now);
    Quota::new(limit, limit.saturating_sub(in_use), reset).with_unit(QuotaUnit::InFlight)
}

impl Account for ConcurrencyLimiter {
    /// Returns the limit and the permits that are left, as [`in_use`](ConcurrencyLimiter::in_use).
    /// The time at which the permits in use are free again is not known.
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        Some(quota(self.limit(), self.in_use(), now))
    }
}

lend!(ConcurrencyPermit, [] ConcurrencyLimiter);
